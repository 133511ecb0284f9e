// Package strictyaml decodes YAML into typed values, and reports every problem with its position.
package strictyaml

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Decoder decodes YAML into typed values and collects all diagnostics. The tags of a struct define
// what it accepts:
//
//	yaml:"key"            a required key
//	yaml:"key,optional"   a key that may be left out; so may one with omitempty
//	yaml:",inline"        the keys of the embedded struct
//	yaml:",name"          the key of the struct in its parent
//	yaml:",value"         the struct is written as this value only
//	yaml:"key,value"      the struct may be written as this value, instead of as a mapping
//	yaml:",blocks"        keys for the values of a map; see Blocks
//	in:"kind"             the value, or each element, is a word of that kind
//	min:"1" max:"9"       the minimum and the maximum of a number
//	default:"[a]"         the value of a missing key, as YAML
//
// A slice of structs with a name field is written as a mapping, in order. Lists
// are never empty and have no duplicates.
type Decoder struct {
	// FS holds the files that values name; see InFile.
	FS fs.FS
	// Private keeps values out of messages.
	Private bool
	// Name checks a name that a mapping introduces, and Word a word of a kind. Both report with
	// Diagnose; they may be nil.
	Name func(at Pos, name string)
	Word func(at Pos, word, kind string)
	// Blocks lists the keys that stand for a map with the tag ",blocks", whose values are of type t.
	Blocks func(t reflect.Type) []Block

	file        string
	diagnostics Errors
	// pos has the position of every value read, by its address.
	pos    map[any]Pos
	shapes map[reflect.Type]*shape
}

// Block is a key for a value of a map.
type Block struct {
	Key      string
	Type     reflect.Type // of the value, or what it points to
	Optional bool
	Min, Max float64 // minimum and maximum of the numbers in it; 0: no bound
}

// New returns a decoder that has read nothing.
func New() *Decoder { return &Decoder{pos: map[any]Pos{}, shapes: map[reflect.Type]*shape{}} }

// Custom is implemented by values that read themselves.
type Custom interface{ DecodeYAML(n Node) }

// Checked is implemented by structs with a rule of their own. CheckYAML is called if the struct has no
// other problem. It returns the address of the invalid field and the reason, or nil and "".
type Checked interface{ CheckYAML() (at any, why string) }

// Node is a value in a file.
type Node struct {
	*yaml.Node
	d     *Decoder
	field field
}

// MustBe reports that the value is not what was expected.
func (n Node) MustBe(what string) { n.d.mustBe(what, n.Node, n.field) }

// Within reports whether a number is in the bounds of the value.
func (n Node) Within(x float64) bool { return n.d.within(n.Node, x, n.field) }

// Err returns all diagnostics, sorted, or nil.
func (d *Decoder) Err() error {
	if len(d.diagnostics) == 0 {
		return nil
	}
	return d.diagnostics.Sorted()
}

// First returns the first diagnostic, or nil, for callers that show one line.
func (d *Decoder) First() error {
	if len(d.diagnostics) == 0 {
		return nil
	}
	return d.diagnostics.Sorted()[0]
}

// Pos returns the position of the value at an address.
func (d *Decoder) Pos(at any) Pos { return d.pos[at] }

func (d *Decoder) at(n *yaml.Node) Pos { return Pos{File: d.file, Line: n.Line, Col: n.Column} }

// Diagnose adds a diagnostic at a position.
func (d *Decoder) Diagnose(p Pos, format string, args ...any) {
	d.diagnostics = append(d.diagnostics, Diagnostic{Pos: p, Msg: fmt.Sprintf(format, args...)})
}

// MaxFile is the largest file that is read, in bytes. The parser takes
// several hundred times as much memory.
const MaxFile = 256 << 10

// ReadFile decodes a file in FS like Read.
func (d *Decoder) ReadFile(name string, out any) bool {
	data, err := safefile.ReadFS(d.FS, name, MaxFile)
	if err != nil {
		d.Diagnose(StartOf(name), "%s", Reason(err))
		return false
	}
	return d.Read(name, data, out)
}

// Read decodes the content of a file into the struct that out points to. It reports whether the file is
// valid. name is the name of the file in diagnostics.
func (d *Decoder) Read(name string, data []byte, out any) bool {
	d.file = name
	before := len(d.diagnostics)
	if root, at, why := parse(name, data); root != nil {
		d.decode(root, reflect.ValueOf(out).Elem(), field{what: "the file"})
	} else {
		d.Diagnose(at, "%s", why)
	}
	return len(d.diagnostics) == before
}

// shape holds the parsed tags of a struct.
type shape struct {
	keys        []string
	fields      []field // under the keys
	name, value *field
}

// field holds the parsed tags of a struct field.
type field struct {
	index    []int
	what     string // in messages
	optional bool
	kind     string
	min, max *float64
	preset   string
	block    reflect.Type // of a value in a map of blocks; nil elsewhere
}

func (d *Decoder) shape(t reflect.Type) *shape {
	if known := d.shapes[t]; known != nil {
		return known
	}
	s := &shape{}
	d.fields(s, t, nil)
	d.shapes[t] = s
	return s
}

// fields adds the fields of t, which is at an index of the struct.
func (d *Decoder) fields(s *shape, t reflect.Type, at []int) {
	add := func(key string, f field) {
		f.what = strconv.Quote(key)
		s.keys, s.fields = append(s.keys, key), append(s.fields, f)
	}
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		key, options, _ := strings.Cut(tag.Get("yaml"), ",")
		is := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
		f := field{
			index: append(slices.Clone(at), i), kind: tag.Get("in"), optional: is("optional") || is("omitempty"),
			min: bound(tag.Get("min")), max: bound(tag.Get("max")), preset: tag.Get("default"),
		}
		switch {
		case is("inline"):
			d.fields(s, t.Field(i).Type, f.index)
		case is("name"):
			s.name = &f
		case is("value"):
			s.value = &f
			if key != "" {
				add(key, f)
			}
		case is("blocks"):
			for _, b := range d.Blocks(t.Field(i).Type.Elem()) {
				each := f
				each.block, each.optional, each.min, each.max = b.Type, f.optional || b.Optional, limit(b.Min), limit(b.Max)
				add(b.Key, each)
			}
		default:
			add(key, f)
		}
	}
}

// bound reads a min or max tag.
func bound(tag string) *float64 {
	if tag == "" {
		return nil
	}
	v, err := strconv.ParseFloat(tag, 64)
	if err != nil {
		panic("strictyaml: invalid bound: " + tag)
	}
	return &v
}

// limit returns a bound, nil for 0.
func limit(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}

// InFile is a value in a file of its own. It is written as the name of that file in FS.
type InFile interface {
	Source() Source
	// Parse reads the value from the content of the file. It returns the text in it that is copied
	// into documents, or "". An error of type Errors has positions in the file. Without content,
	// file is a word; see Source.
	Parse(file string, data []byte) (published string, err error)
}

// Source describes the file that a value can name: What is in it, such as model, and the Limit of its bytes. If
// Prefix is not empty, only a value with the prefix names a file; any other is a word of the kind in the
// field's tag.
type Source struct {
	What   string
	Limit  int64
	Prefix string
}

func (d *Decoder) inFile(n *yaml.Node, v InFile, f field) {
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
		d.Diagnose(d.at(n), "%q is not a path inside the definitions", file)
		return
	}
	data, err := safefile.ReadFS(d.FS, file, from.Limit)
	if err != nil {
		d.Diagnose(d.at(n), "%s %q: %s", from.What, file, Reason(err))
		return
	}
	published, err := v.Parse(file, data)
	switch places, ok := errors.AsType[Errors](err); {
	case ok:
		d.Note(places)
	case err != nil:
		d.Diagnose(d.at(n), "%v", err)
	case published != "":
		d.word(d.at(n), published, PublishedText)
	}
}

// Note adds the diagnostics of another file, each once, even if several values name the file.
func (d *Decoder) Note(places Errors) {
	for _, f := range places {
		if !slices.Contains(d.diagnostics, f) {
			d.diagnostics = append(d.diagnostics, f)
		}
	}
}

// PublishedText is the kind of text that is copied into documents.
const PublishedText = "published text"

func (d *Decoder) decode(n *yaml.Node, v reflect.Value, f field) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.Diagnose(d.at(n), "anchors and aliases are not allowed; write the value out")
		return
	}
	d.pos[v.Addr().Interface()] = d.at(n)
	if c, ok := reflect.TypeAssert[Custom](v.Addr()); ok {
		c.DecodeYAML(Node{n, d, f})
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
	case reflect.Map:
		d.entries(n, v, f)
	default:
		d.scalar(n, v, f)
	}
}

// structure decodes a mapping, or the value that may replace it, into a struct.
func (d *Decoder) structure(n *yaml.Node, v reflect.Value, f field) {
	s := d.shape(v.Type())
	if s.value != nil && (len(s.keys) == 0 || n.Kind != yaml.MappingNode) {
		as := *s.value
		as.what = f.what
		d.decode(n, v.FieldByIndex(as.index), as)
		return
	}
	before := len(d.diagnostics)
	seen := map[string]bool{}
	ok := d.mapping(n, f, func(k, val *yaml.Node) {
		seen[k.Value] = true
		if i := slices.Index(s.keys, k.Value); i >= 0 {
			d.member(val, v, s.keys[i], s.fields[i])
		} else {
			d.Diagnose(d.at(k), "unknown key %q%s", k.Value, vocab.Hint(k.Value, s.keys))
		}
	})
	for i, key := range s.keys {
		switch sub := s.fields[i]; {
		case !ok || seen[key]:
		case sub.preset != "":
			d.member(preset(sub.preset, n), v, key, sub)
		case !sub.optional:
			d.Diagnose(d.at(n), "%s lacks the key %q", f.what, key)
		}
	}
	if c, ok := reflect.TypeAssert[Checked](v.Addr()); ok && len(d.diagnostics) == before {
		if at, why := c.CheckYAML(); why != "" {
			d.Diagnose(d.pos[at], "%s", why)
		}
	}
}

// member decodes the value of a key of struct v.
func (d *Decoder) member(n *yaml.Node, v reflect.Value, key string, f field) {
	v = v.FieldByIndex(f.index)
	if f.block == nil {
		d.decode(n, v, f)
		return
	}
	block := reflect.New(f.block)
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

// preset returns a default as a node at the position of n.
func preset(text string, n *yaml.Node) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		panic("strictyaml: a default is not YAML: " + text)
	}
	out := doc.Content[0]
	for _, each := range append(out.Content, out) {
		each.Line, each.Column = n.Line, n.Column
	}
	return out
}

// mapping calls each with every key and its value. It reports keys that are not plain words or are
// duplicated. It returns whether n is a mapping.
func (d *Decoder) mapping(n *yaml.Node, f field, each func(k, val *yaml.Node)) bool {
	if n.Kind != yaml.MappingNode {
		return d.mustBe("a mapping", n, f)
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch line := lines[k.Value]; {
		case k.Kind != yaml.ScalarNode || k.Anchor != "":
			d.Diagnose(d.at(k), "a key must be a plain word, not %s", d.describe(k))
		case line != 0:
			d.Diagnose(d.at(k), "duplicate key %q, first in line %d", k.Value, line)
		default:
			lines[k.Value] = k.Line
			each(k, n.Content[i+1])
		}
	}
	return true
}

// named decodes a mapping into a slice of structs that know their own key.
func (d *Decoder) named(n *yaml.Node, v reflect.Value, f field) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		d.Diagnose(d.at(n), "%s is empty", f.what)
		return
	}
	name := d.shape(v.Type().Elem()).name
	out := reflect.MakeSlice(v.Type(), len(n.Content)/2, len(n.Content)/2) // where it is: addresses are kept
	used := 0
	d.mapping(n, f, func(k, val *yaml.Node) {
		if name.kind != "" {
			d.word(d.at(k), k.Value, name.kind)
		} else if d.Name != nil {
			d.Name(d.at(k), k.Value)
		}
		e := out.Index(used)
		used++
		e.FieldByIndex(name.index).SetString(k.Value)
		d.decode(val, e, field{what: strconv.Quote(k.Value)})
		d.pos[e.Addr().Interface()] = d.at(k)
	})
	v.Set(out.Slice(0, used))
}

// entries decodes a mapping into a map. The position of a value that is a pointer is the position of its key.
func (d *Decoder) entries(n *yaml.Node, v reflect.Value, f field) {
	out := reflect.MakeMap(v.Type())
	d.mapping(n, f, func(k, val *yaml.Node) {
		key, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		if !d.scalar(k, key, field{what: "a key of " + f.what}) {
			return
		}
		d.decode(val, e, field{what: strconv.Quote(k.Value), min: f.min, max: f.max})
		if e.Kind() == reflect.Pointer {
			d.pos[e.Interface()] = d.at(k)
		}
		out.SetMapIndex(key, e)
	})
	v.Set(out)
}

// list decodes a sequence.
func (d *Decoder) list(n *yaml.Node, v reflect.Value, f field) {
	if n.Kind != yaml.SequenceNode {
		d.mustBe("a list", n, f)
		return
	}
	if len(n.Content) == 0 {
		d.Diagnose(d.at(n), "%s is empty", f.what)
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
				d.Diagnose(d.at(c), "%s lists %s twice", f.what, d.Quote(c.Value))
			}
			seen[c.Value] = true
		}
	}
	v.Set(out)
}
