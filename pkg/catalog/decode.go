package catalog

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/provenance"
)

// A decoder turns YAML nodes into typed values and notes every fault it meets
// on the way. What a struct accepts is said by its tags:
//
//	yaml:"key"            a required key
//	yaml:"key,optional"   a key that may be left out
//	yaml:",name"          the key under which the struct stands in its parent
//	yaml:",value"         the whole value under that key
//	in:"kind"             the value, or each element, is a name of that kind
//	min:"1" max:"9"       the least and the greatest number allowed
//
// A slice of structs with a name field is written as a mapping, in order. Lists
// are never empty and hold nothing twice.
type decoder struct {
	file   string
	faults *Errors
	// pos has the position of every value read, by the address of its field.
	pos  map[any]Pos
	refs []reference
	// private keeps values out of messages.
	private bool
	types   map[reflect.Type][]field // what tags say, by struct
}

// A reference is a name to be looked up once all files are read.
type reference struct {
	Pos
	kind string
	name string
}

func (d *decoder) at(n *yaml.Node) Pos { return Pos{File: d.file, Line: n.Line, Col: n.Column} }

func (d *decoder) fault(p Pos, format string, args ...any) {
	*d.faults = append(*d.faults, Diagnostic{Pos: p, Msg: fmt.Sprintf(format, args...)})
}

// document decodes a file into the struct that out points to, and reports
// whether nothing is wrong in it.
func (d *decoder) document(f parsed, out any) bool {
	d.file = f.file
	if f.fault != nil {
		*d.faults = append(*d.faults, *f.fault)
		return false
	}
	before := len(*d.faults)
	d.decode(f.root, reflect.ValueOf(out).Elem(), field{what: "the file"})
	return len(*d.faults) == before
}

// field is what the tags of a struct field say.
type field struct {
	index    int
	key      string
	what     string // in messages
	optional bool
	isName   bool
	isValue  bool
	kind     string
	min, max *float64
}

func (d *decoder) fields(t reflect.Type) []field {
	if known := d.types[t]; known != nil {
		return known
	}
	out := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		key, option, _ := strings.Cut(tag.Get("yaml"), ",")
		f := field{
			index: i, key: key, what: strconv.Quote(key), kind: tag.Get("in"),
			optional: option == "optional", isName: option == "name", isValue: option == "value",
		}
		f.min, f.max = bound(tag.Get("min")), bound(tag.Get("max"))
		out = append(out, f)
	}
	if d.types == nil {
		d.types = map[reflect.Type][]field{}
	}
	d.types[t] = out
	return out
}

// bound reads a min or max tag.
func bound(tag string) *float64 {
	if tag == "" {
		return nil
	}
	v, err := strconv.ParseFloat(tag, 64)
	if err != nil {
		panic("catalog: a bound is no number: " + tag)
	}
	return &v
}

func pick(fs []field, is func(field) bool) *field {
	if i := slices.IndexFunc(fs, is); i >= 0 {
		return &fs[i]
	}
	return nil
}

func (d *decoder) decode(n *yaml.Node, v reflect.Value, f field) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.fault(d.at(n), "anchors and aliases are not allowed; write the value out")
		return
	}
	d.pos[v.Addr().Interface()] = d.at(n)
	if b, ok := reflect.TypeAssert[*Bytes](v.Addr()); ok {
		d.bytes(n, b, f)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem(), f)
	case reflect.Struct:
		d.structure(n, v, f)
	case reflect.Slice:
		if e := v.Type().Elem(); e.Kind() == reflect.Struct {
			if name := pick(d.fields(e), func(f field) bool { return f.isName }); name != nil {
				d.named(n, v, f, *name)
				return
			}
		}
		d.list(n, v, f)
	default:
		d.scalar(n, v, f)
	}
}

// structure decodes a mapping into a struct.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, f field) {
	if n.Kind != yaml.MappingNode {
		d.fault(d.at(n), "%s must be a mapping, not %s", f.what, d.describe(n))
		return
	}
	fs := d.fields(v.Type())
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		key, ok := d.key(k, seen)
		if !ok {
			continue
		}
		if sub := pick(fs, func(f field) bool { return f.key == key && !f.isName }); sub != nil {
			d.decode(val, v.Field(sub.index), *sub)
		} else {
			d.fault(d.at(k), "unknown key %q%s", key, Hint(key, keys(fs)))
		}
	}
	for _, sub := range fs {
		if seen[sub.key] == 0 && !sub.optional && !sub.isName {
			d.fault(d.at(n), "%s lacks the key %q", f.what, sub.key)
		}
	}
}

// keys lists the keys that a struct accepts.
func keys(fs []field) []string {
	var out []string
	for _, f := range fs {
		if !f.isName {
			out = append(out, f.key)
		}
	}
	return out
}

// key returns the name of a mapping's key, which stands there once.
func (d *decoder) key(k *yaml.Node, seen map[string]int) (string, bool) {
	if k.Kind != yaml.ScalarNode || k.Anchor != "" {
		d.fault(d.at(k), "a key must be a plain word, not %s", d.describe(k))
		return "", false
	}
	if line := seen[k.Value]; line != 0 {
		d.fault(d.at(k), "key %q stands twice, first in line %d", k.Value, line)
		return "", false
	}
	seen[k.Value] = k.Line
	return k.Value, true
}

// named decodes a mapping into a slice of structs that know their own key.
func (d *decoder) named(n *yaml.Node, v reflect.Value, f, name field) {
	if n.Kind != yaml.MappingNode {
		d.fault(d.at(n), "%s must be a mapping, not %s", f.what, d.describe(n))
		return
	}
	if len(n.Content) == 0 {
		d.fault(d.at(n), "%s is empty", f.what)
		return
	}
	elem := v.Type().Elem()
	value := pick(d.fields(elem), func(f field) bool { return f.isValue })
	out := reflect.MakeSlice(v.Type(), len(n.Content)/2, len(n.Content)/2)
	seen := map[string]int{}
	used := 0
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		key, ok := d.key(k, seen)
		if !ok {
			continue
		}
		if name.kind != "" {
			d.word(d.at(k), key, name.kind)
		} else {
			d.name(d.at(k), key)
		}
		e := out.Index(used)
		used++
		e.Field(name.index).SetString(key)
		target, as := e, field{what: strconv.Quote(key)}
		if value != nil {
			target, as = e.Field(value.index), *value
			as.what = strconv.Quote(key)
		}
		d.decode(val, target, as)
		d.pos[e.Addr().Interface()] = d.at(k)
	}
	v.Set(out.Slice(0, used))
}

var nameForm = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)

// name checks a name that the definitions introduce.
func (d *decoder) name(p Pos, name string) {
	switch {
	case !nameForm.MatchString(name):
		d.fault(p, "%q is no name: lower-case letters and digits, joined by '-' or '.'", name)
	case name == All:
		d.fault(p, "%q is no name: filters use the word for everything", name)
	}
}

// form returns what a word of some kind must look like; kinds that have a list
// instead have none.
func form(kind string) *regexp.Regexp {
	switch kind {
	case "environment variable":
		return variableForm
	case "network interface", "rdma device":
		return deviceForm
	case "runner label", "environment name":
		return labelForm
	case "absolute path":
		return pathForm
	}
	return nil
}

var (
	variableForm = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
	deviceForm   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,31}(:[1-9][0-9]*)?$`)
	labelForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	pathForm     = regexp.MustCompile(`^/[^\x00-\x1f]*$`)
)

// publishedText is the kind of text that documents carry as it is.
const publishedText = "published text"

// word takes note of a word of some kind, or checks its form at once.
func (d *decoder) word(p Pos, word, kind string) {
	switch form := form(kind); {
	case kind == publishedText && strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }):
		d.fault(p, "%s ends in documents; write it in printable characters on one line", d.quote(word))
	case kind == publishedText:
		if err := provenance.NewScreen().Check(word); err != nil && !d.private {
			d.fault(p, "%s ends in documents, which could not be published: it %v", d.quote(word), err)
		}
	case form == nil:
		d.refs = append(d.refs, reference{p, kind, word})
	case !form.MatchString(word):
		d.fault(p, "%s is no %s", d.quote(word), kind)
	}
}

// quote is a value as messages may show it.
func (d *decoder) quote(value string) string {
	if d.private {
		return "the value"
	}
	return strconv.Quote(value)
}

// list decodes a sequence.
func (d *decoder) list(n *yaml.Node, v reflect.Value, f field) {
	if n.Kind != yaml.SequenceNode {
		d.fault(d.at(n), "%s must be a list, not %s", f.what, d.describe(n))
		return
	}
	if len(n.Content) == 0 {
		d.fault(d.at(n), "%s is empty", f.what)
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
				d.fault(d.at(c), "%s lists %s twice", f.what, d.quote(c.Value))
			}
			seen[c.Value] = true
		}
	}
	v.Set(out)
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, f field) {
	switch v.Kind() {
	case reflect.String:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
			hint := ""
			if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
				hint = "; put it in quotes"
			}
			d.fault(d.at(n), "%s must be a word, not %s%s", f.what, d.describe(n), hint)
			return
		}
		if strings.TrimSpace(n.Value) == "" {
			d.fault(d.at(n), "%s is empty", f.what)
			return
		}
		v.SetString(n.Value)
		if f.kind != "" {
			d.word(d.at(n), n.Value, f.kind)
		}
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			d.fault(d.at(n), "%s must be true or false, not %s", f.what, d.describe(n))
			return
		}
		v.SetBool(n.Value == "true")
	case reflect.Int, reflect.Uint64:
		d.integer(n, v, f)
	case reflect.Float64:
		x, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || !isNumber(n) || err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
			d.fault(d.at(n), "%s must be a number, not %s", f.what, d.describe(n))
			return
		}
		if d.within(n, x, f) {
			v.SetFloat(x)
		}
	default:
		panic(fmt.Sprintf("catalog: a definition cannot hold a %s", v.Type()))
	}
}

func (d *decoder) integer(n *yaml.Node, v reflect.Value, f field) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" {
		d.fault(d.at(n), "%s must be a whole number, not %s", f.what, d.describe(n))
		return
	}
	x, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		d.fault(d.at(n), "%s must be a plain decimal number, not %s", f.what, d.number(n))
		return
	}
	switch {
	case !d.within(n, float64(x), f):
	case v.Kind() == reflect.Uint64 && x < 0:
		d.fault(d.at(n), "%s must not be negative", f.what)
	case v.Kind() == reflect.Uint64:
		v.SetUint(uint64(x))
	case x > maxInt:
		d.fault(d.at(n), "%s must be at most %d, not %s", f.what, maxInt, d.number(n))
	default:
		v.SetInt(x)
	}
}

// maxInt bounds every count, so that products of them stay far from overflow.
const maxInt = 1 << 30

func (d *decoder) within(n *yaml.Node, x float64, f field) bool {
	if f.min != nil && x < *f.min {
		d.fault(d.at(n), "%s must be at least %s, not %s", f.what, plain(*f.min), d.number(n))
		return false
	}
	if f.max != nil && x > *f.max {
		d.fault(d.at(n), "%s must be at most %s, not %s", f.what, plain(*f.max), d.number(n))
		return false
	}
	return true
}

// plain spells a bound without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func (d *decoder) number(n *yaml.Node) string {
	if d.private {
		return "this one"
	}
	return n.Value
}

func isNumber(n *yaml.Node) bool { return n.ShortTag() == "!!int" || n.ShortTag() == "!!float" }

// describe says what stands there instead of what was expected.
func (d *decoder) describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!str":
		if d.private {
			return "a word"
		}
		return strconv.Quote(n.Value)
	case "!!int", "!!float":
		if d.private {
			return "a number"
		}
		return "the number " + n.Value
	case "!!bool":
		return "the truth value " + n.Value
	}
	return "a " + strings.TrimPrefix(n.ShortTag(), "!!")
}
