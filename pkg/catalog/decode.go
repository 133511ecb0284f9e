package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/safefile"
)

// A decoder turns YAML nodes into typed values and notes every diagnostic
// on the way. What a struct accepts is said by its tags:
//
//	yaml:"key"            a required key
//	yaml:"key,optional"   a key that may be left out
//	yaml:",name"          the key under which the struct stands in its parent
//	yaml:",value"         the struct is written as this value alone
//	yaml:",families"      a key for the block of each family, in a map by family
//	in:"kind"             the value, or each element, is a name of that kind
//	min:"1" max:"9"       the least and the greatest number allowed
//	default:"[a]"         what a key that is left out stands for, as YAML
//
// A slice of structs with a name field is written as a mapping, in order. Lists
// are never empty and hold nothing twice.
type decoder struct {
	fsys        fs.FS // has the files that values name
	file        string
	diagnostics Errors
	// pos has the position of every value read, by its address.
	pos  map[any]Pos
	refs []reference
	// private keeps values out of messages.
	private bool
	shapes  map[reflect.Type]*shape
}

func newDecoder() decoder {
	return decoder{pos: map[any]Pos{}, shapes: map[reflect.Type]*shape{}}
}

// A reference is a name to be looked up once all files are read.
type reference struct {
	Pos
	kind string
	name string
}

// resolve looks up every name that was used. Names of a broken kind are left
// alone.
func (d *decoder) resolve(names map[string][]string, broken map[string]bool) {
	for _, r := range d.refs {
		if !slices.Contains(names[r.kind], r.name) && !broken[r.kind] {
			d.diagnose(r.Pos, "unknown %s %q%s", r.kind, r.name, Hint(r.name, names[r.kind]))
		}
	}
}

// words lists the words that the files of a directory use, by kind.
func (d *decoder) words(dir string) map[string][]string {
	out := map[string][]string{}
	for _, r := range d.refs {
		if path.Dir(r.File) == dir {
			out[r.kind] = append(out[r.kind], r.name)
		}
	}
	return out
}

// err is all diagnostics, sorted, or nil.
func (d *decoder) err() error {
	if len(d.diagnostics) == 0 {
		return nil
	}
	return d.diagnostics.Sorted()
}

func (d *decoder) at(n *yaml.Node) Pos { return Pos{File: d.file, Line: n.Line, Col: n.Column} }

func (d *decoder) diagnose(p Pos, format string, args ...any) {
	d.diagnostics = append(d.diagnostics, Diagnostic{Pos: p, Msg: fmt.Sprintf(format, args...)})
}

// document decodes a file into the struct that out points to, and reports
// whether nothing is wrong in it.
func (d *decoder) document(f parsed, out any) bool {
	d.file = f.file
	if f.failed != nil {
		d.diagnostics = append(d.diagnostics, *f.failed)
		return false
	}
	before := len(d.diagnostics)
	d.decode(f.root, reflect.ValueOf(out).Elem(), field{what: "the file"})
	return len(d.diagnostics) == before
}

// shape is what the tags of a struct say.
type shape struct {
	keys        []string
	fields      []field // under the keys
	name, value *field
}

// field is what the tags of a struct field say.
type field struct {
	index    int
	what     string // in messages
	optional bool
	kind     string
	min, max *float64
	preset   string
	family   reflect.Type // of a family's block or blocks in a map of them; nil elsewhere
}

func (d *decoder) shape(t reflect.Type) *shape {
	if known := d.shapes[t]; known != nil {
		return known
	}
	s := &shape{}
	add := func(key string, f field) {
		f.what = strconv.Quote(key)
		s.keys, s.fields = append(s.keys, key), append(s.fields, f)
	}
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		key, options, _ := strings.Cut(tag.Get("yaml"), ",")
		is := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
		f := field{index: i, kind: tag.Get("in"), optional: is("optional"), min: bound(tag.Get("min")), max: bound(tag.Get("max")), preset: tag.Get("default")}
		switch {
		case is("name"):
			s.name = &f
		case is("value"):
			s.value = &f
		case is("families"):
			place := t.Field(i).Type.Elem()
			list := place.Kind() == reflect.Slice
			if list {
				place = place.Elem()
			}
			for _, family := range families.All() {
				empty := family.empty(place)
				if empty == nil {
					continue
				}
				each := f
				if each.family = reflect.TypeOf(empty).Elem(); list {
					each.family = reflect.SliceOf(each.family)
				}
				each.optional = f.optional || family.Added
				if each.family == reflect.TypeFor[Worlds]() {
					each.min, each.max = limit(family.MinWorld), limit(family.MaxWorld)
				}
				add(family.Name, each)
			}
		default:
			add(key, f)
		}
	}
	d.shapes[t] = s
	return s
}

// bound reads a min or max tag.
func bound(tag string) *float64 {
	if tag == "" {
		return nil
	}
	v, err := strconv.ParseFloat(tag, 64)
	if err != nil {
		panic("catalog: invalid bound: " + tag)
	}
	return &v
}

// limit is a bound that is given; 0 is none.
func limit(n int) *float64 {
	if n == 0 {
		return nil
	}
	v := float64(n)
	return &v
}

// InFile is a value that has a file of its own. The definitions name the file, which is below
// them.
type InFile interface {
	Source() Source
	// Parse reads the value from the content of the file, and returns the text in it that
	// documents carry as it is, or nothing. An error of type Errors has places in the file.
	// Without content, file is a word; see Source.
	Parse(file string, data []byte) (published string, err error)
}

// Source says what is in a file, such as model, and how many bytes it may have. If files stand
// behind a prefix, a value without it is a word of the kind in its tag.
type Source struct {
	What   string
	Limit  int64
	Prefix string
}

func (d *decoder) inFile(n *yaml.Node, v InFile, f field) {
	from := v.Source()
	file, is := strings.CutPrefix(n.Value, from.Prefix)
	if from.Prefix == "" || n.Kind != yaml.ScalarNode || !is {
		if !d.scalar(n, reflect.ValueOf(&file).Elem(), f) {
			return
		}
		if from.Prefix != "" {
			_, _ = v.Parse(file, nil)
			return
		}
	}
	if !fs.ValidPath(file) {
		d.diagnose(d.at(n), "%q is not a path inside the definitions", file)
		return
	}
	data, err := safefile.ReadFS(d.fsys, file, from.Limit)
	if err != nil {
		d.diagnose(d.at(n), "%s %q: %s", from.What, file, reason(err))
		return
	}
	published, err := v.Parse(file, data)
	switch places, ok := errors.AsType[Errors](err); {
	case ok:
		d.note(places)
	case err != nil:
		d.diagnose(d.at(n), "%v", err)
	case published != "":
		d.word(d.at(n), published, publishedText)
	}
}

// note takes in the diagnostics of a file, each once, however many blocks name it.
func (d *decoder) note(places Errors) {
	for _, f := range places {
		if !slices.Contains(d.diagnostics, f) {
			d.diagnostics = append(d.diagnostics, f)
		}
	}
}

// custom values read themselves from a node.
type custom interface {
	decode(d *decoder, n *yaml.Node, f field)
}

func (d *decoder) decode(n *yaml.Node, v reflect.Value, f field) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.diagnose(d.at(n), "anchors and aliases are not allowed; write the value out")
		return
	}
	d.pos[v.Addr().Interface()] = d.at(n)
	if c, ok := reflect.TypeAssert[custom](v.Addr()); ok {
		c.decode(d, n, f)
		return
	}
	if in, ok := reflect.TypeAssert[InFile](v.Addr()); ok {
		d.inFile(n, in, f)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.decode(n, v.Elem(), f)
	case reflect.Struct:
		d.structure(n, v, f)
	case reflect.Slice:
		if e := v.Type().Elem(); e.Kind() == reflect.Struct && d.shape(e).name != nil {
			d.named(n, v, f)
		} else {
			d.list(n, v, f)
		}
	default:
		d.scalar(n, v, f)
	}
}

// structure decodes a mapping into a struct, or the value that stands for it.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, f field) {
	s := d.shape(v.Type())
	if s.value != nil {
		as := *s.value
		as.what = f.what
		d.decode(n, v.Field(as.index), as)
		return
	}
	before := len(d.diagnostics)
	seen := map[string]bool{}
	ok := d.mapping(n, f, func(k, val *yaml.Node) {
		seen[k.Value] = true
		if i := slices.Index(s.keys, k.Value); i >= 0 {
			d.member(val, v, s.keys[i], s.fields[i])
		} else {
			d.diagnose(d.at(k), "unknown key %q%s", k.Value, Hint(k.Value, s.keys))
		}
	})
	for i, key := range s.keys {
		switch sub := s.fields[i]; {
		case !ok || seen[key]:
		case sub.preset != "":
			d.member(preset(sub.preset, n), v, key, sub)
		case !sub.optional:
			d.diagnose(d.at(n), "%s lacks the key %q", f.what, key)
		}
	}
	if s, ok := reflect.TypeAssert[*Sizes](v.Addr()); ok && len(d.diagnostics) == before && s.From > s.To {
		d.diagnose(d.pos[&s.From], "\"from\" must not be larger than \"to\"")
	}
}

// member decodes what stands under a key of struct v.
func (d *decoder) member(n *yaml.Node, v reflect.Value, key string, f field) {
	v = v.Field(f.index)
	if f.family == nil {
		d.decode(n, v, f)
		return
	}
	block := reflect.New(f.family)
	d.decode(n, block.Elem(), f)
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	if list := block.Elem(); v.Type().Elem().Kind() == reflect.Slice {
		block = reflect.MakeSlice(v.Type().Elem(), list.Len(), list.Len())
		for i := range list.Len() {
			block.Index(i).Set(list.Index(i).Addr())
			d.pos[block.Index(i).Addr().Interface()] = d.at(n) // where the list is
		}
	}
	v.SetMapIndex(reflect.ValueOf(key), block)
}

// preset is a default as a node that stands where n does.
func preset(text string, n *yaml.Node) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		panic("catalog: a default is not YAML: " + text)
	}
	out := doc.Content[0]
	for _, each := range append(out.Content, out) {
		each.Line, each.Column = n.Line, n.Column
	}
	return out
}

// mapping calls f with each key, which is a plain word and stands there once, and
// its value. It reports whether n is a mapping.
func (d *decoder) mapping(n *yaml.Node, f field, each func(k, val *yaml.Node)) bool {
	if n.Kind != yaml.MappingNode {
		return d.mustBe("a mapping", n, f)
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch line := lines[k.Value]; {
		case k.Kind != yaml.ScalarNode || k.Anchor != "":
			d.diagnose(d.at(k), "a key must be a plain word, not %s", d.describe(k))
		case line != 0:
			d.diagnose(d.at(k), "duplicate key %q, first in line %d", k.Value, line)
		default:
			lines[k.Value] = k.Line
			each(k, n.Content[i+1])
		}
	}
	return true
}

// named decodes a mapping into a slice of structs that know their own key.
func (d *decoder) named(n *yaml.Node, v reflect.Value, f field) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		d.diagnose(d.at(n), "%s is empty", f.what)
		return
	}
	name := d.shape(v.Type().Elem()).name
	out := reflect.MakeSlice(v.Type(), len(n.Content)/2, len(n.Content)/2) // where it is: addresses are kept
	used := 0
	d.mapping(n, f, func(k, val *yaml.Node) {
		if name.kind != "" {
			d.word(d.at(k), k.Value, name.kind)
		} else {
			d.name(d.at(k), k.Value)
		}
		e := out.Index(used)
		used++
		e.Field(name.index).SetString(k.Value)
		d.decode(val, e, field{what: strconv.Quote(k.Value)})
		d.pos[e.Addr().Interface()] = d.at(k)
	})
	v.Set(out.Slice(0, used))
}

// list decodes a sequence.
func (d *decoder) list(n *yaml.Node, v reflect.Value, f field) {
	if n.Kind != yaml.SequenceNode {
		d.mustBe("a list", n, f)
		return
	}
	if len(n.Content) == 0 {
		d.diagnose(d.at(n), "%s is empty", f.what)
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	seen := map[string]bool{}
	elem := f
	elem.what = "an element of " + f.what
	for i, c := range n.Content {
		d.decode(c, out.Index(i), elem)
		if c.Kind == yaml.ScalarNode {
			if seen[c.Value] {
				d.diagnose(d.at(c), "%s lists %s twice", f.what, d.quote(c.Value))
			}
			seen[c.Value] = true
		}
	}
	v.Set(out)
}
