package catalog

import (
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/strictyaml"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// decoder reads definitions. Their words are names introduced by other definitions, or match a pattern.
type decoder struct {
	*strictyaml.Decoder
	refs []reference
}

func newDecoder() *decoder {
	d := &decoder{Decoder: strictyaml.New()}
	d.Name, d.Word, d.Blocks = d.name, d.word, blocks
	return d
}

// blocks lists the keys of the families with values of type t.
func blocks(t reflect.Type) (out []strictyaml.Block) {
	list := t.Kind() == reflect.Slice
	if list {
		t = t.Elem()
	}
	for _, f := range families.All() {
		empty := f.empty(t)
		if empty == nil {
			continue
		}
		b := strictyaml.Block{Key: f.Name, Type: reflect.TypeOf(empty).Elem(), Optional: f.Added}
		if b.Type == reflect.TypeFor[Worlds]() {
			b.Min, b.Max = float64(f.MinWorld), float64(f.MaxWorld)
		}
		if list {
			b.Type = reflect.SliceOf(b.Type)
		}
		out = append(out, b)
	}
	return out
}

// reference is a name to be looked up after all files are read.
type reference struct {
	strictyaml.Pos
	kind string
	name string
}

// resolve looks up every used name. It ignores names of broken kinds.
func (d *decoder) resolve(names map[string][]string, broken map[string]bool) {
	for _, r := range d.refs {
		if !slices.Contains(names[r.kind], r.name) && !broken[r.kind] {
			d.Diagnose(r.Pos, "unknown %s %q%s", r.kind, r.name, vocab.Hint(r.name, names[r.kind]))
		}
	}
}

// words lists the words used by the files of a directory, by kind.
func (d *decoder) words(dir string) map[string][]string {
	out := map[string][]string{}
	for _, r := range d.refs {
		if path.Dir(r.File) == dir {
			out[r.kind] = append(out[r.kind], r.name)
		}
	}
	return out
}

var nameForm = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)

// name checks a name introduced by the definitions.
func (d *decoder) name(p strictyaml.Pos, name string) {
	if err := CheckName(name); err != nil {
		d.Diagnose(p, "%v", err)
	}
}

// CheckName refuses an invalid name of a definition.
func CheckName(name string) error {
	switch {
	case !nameForm.MatchString(name):
		return fmt.Errorf("invalid name %q: want lower-case letters and digits, joined by '-' or '.'", name)
	case name == All:
		return fmt.Errorf("invalid name %q: filters use this word to select everything", name)
	}
	return nil
}

// forms holds the patterns of the words of some kinds; other kinds have a list of words.
var forms = map[string]*regexp.Regexp{
	"environment variable": regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`),
	"network interface":    deviceForm,
	"rdma device":          deviceForm,
	"host address":         regexp.MustCompile(`^[A-Za-z0-9:][A-Za-z0-9.:-]{0,252}$`),
	"runner label":         regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$`),
	"environment name":     labelForm,
	"absolute path":        regexp.MustCompile(`^/[^\x00-\x1f]*$`),
}

var (
	deviceForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,31}(:[1-9][0-9]*)?$`)
	labelForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
)

// word records a word of some kind, or checks its pattern at once.
func (d *decoder) word(p strictyaml.Pos, word, kind string) {
	switch form := forms[kind]; {
	case kind == strictyaml.PublishedText && strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }):
		d.Diagnose(p, "%s is copied into documents; write it in printable characters on one line", d.Quote(word))
	case kind == strictyaml.PublishedText:
		if err := provenance.NewScreen().Check(word); err != nil && !d.Private {
			d.Diagnose(p, "%s is copied into documents, which could then not be published: it %v", d.Quote(word), err)
		}
	case form == nil:
		d.refs = append(d.refs, reference{p, kind, word})
	case !form.MatchString(word):
		d.Diagnose(p, "%s is not a valid %s", d.Quote(word), kind)
	}
}
