package strictjson

import (
	"bytes"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Lists are the closed lists of values, strings or ints, by the name that the `in` tag of a
// field gives.
type Lists map[string][]any

// Types holds what New cannot derive from the Go types.
type Types struct {
	Lists Lists
	// Behind is a value of the type in fields of type any.
	Behind any
	// Blocks are values of the structs that a block field may point to. A block field is an
	// interface with the tag `json:"-" block:"family"`. The members of its struct are in the object
	// of the struct that has the field. The member "family" of that object is the key in Blocks.
	Blocks map[string]any
}

// Form is the form that the JSON of a type must have: all members that are always written, no unknown
// member, null only for pointers that are always written, and no value outside of a closed list.
type Form struct{ root member }

// New returns the form of the type of v, a struct. Its fields must have JSON names;
// embedded structs are flattened. New panics if two members have the same name.
func New(v any, types Types) *Form {
	c := compiler{types: types, known: map[reflect.Type]*shape{}}
	return &Form{member{shape: c.shape(reflect.TypeOf(v))}}
}

// Check returns an error that wraps ErrForm unless text, which Unmarshal has read, is of the form.
func (f *Form) Check(text []byte) error {
	w := walker{Decoder: jsontext.NewDecoder(bytes.NewBuffer(text))}
	return explain(w.value(&f.root))
}

// shape is the form of a struct, list or map. It is nil for any other type.
type shape struct {
	elem    *member            // of a list or map
	members map[string]*member // of a struct
	always  []string           // the members that are always written, in order
	by      string             // the member that selects one of blocks
	blocks  map[string]*shape
}

// member is a member of a struct, or an element of a list or map.
type member struct {
	*shape
	null bool     // may be null
	list []string // the allowed values; empty: any
}

// compiler makes the shapes of types.
type compiler struct {
	types Types
	known map[reflect.Type]*shape
}

func (c *compiler) shape(t reflect.Type) *shape {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return c.shape(t.Elem())
	case reflect.Interface:
		return c.shape(reflect.TypeOf(c.types.Behind))
	case reflect.Slice, reflect.Map:
		return &shape{elem: &member{shape: c.shape(t.Elem()), null: t.Elem().Kind() == reflect.Pointer}}
	case reflect.Struct:
		if c.known[t] == nil {
			c.known[t] = &shape{} // for a type that refers to itself
			*c.known[t] = *c.structure(t, nil)
		}
		return c.known[t]
	default:
		return nil
	}
}

// structure returns the shape of struct t, with the members of a block in it.
func (c *compiler) structure(t, block reflect.Type) *shape {
	s := &shape{members: map[string]*member{}}
	c.fields(s, t)
	switch {
	case s.by == "":
	case block != nil:
		s.by = ""
		c.fields(s, block)
	default:
		s.blocks = map[string]*shape{}
		for name, v := range c.types.Blocks {
			s.blocks[name] = c.structure(t, reflect.TypeOf(v))
		}
	}
	return s
}

func (c *compiler) fields(s *shape, t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			c.fields(s, f.Type)
			continue
		case f.Tag.Get("block") != "":
			s.by = f.Tag.Get("block")
			continue
		case name == "" || !f.IsExported():
			panic(fmt.Sprintf("strictjson: %v.%s has no JSON name", t, f.Name))
		case name == "-":
			continue
		case s.members[name] != nil:
			panic(fmt.Sprintf("strictjson: %v has two members %q", t, name))
		}
		omitted := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		s.members[name] = &member{shape: c.shape(f.Type), null: f.Type.Kind() == reflect.Pointer && !omitted, list: c.list(f.Tag.Get("in"))}
		if !omitted {
			s.always = append(s.always, name)
		}
	}
}

// list returns the texts of the closed list of that name; nil for no name.
func (c *compiler) list(name string) (texts []string) {
	if name != "" && c.types.Lists[name] == nil {
		panic("strictjson: no closed list is called " + name)
	}
	for _, v := range c.types.Lists[name] {
		texts = append(texts, fmt.Sprint(v))
	}
	return texts
}

// walker checks a text token by token.
type walker struct {
	*jsontext.Decoder
	within jsontext.Pointer // where in a longer text it stands
}

func (w *walker) misformed(format string, args ...any) error {
	return misformed(w.within+w.StackPointer(), format, args...)
}

// value checks the next value.
func (w *walker) value(m *member) error {
	kind := w.PeekKind()
	switch {
	case kind == jsontext.KindBeginObject && m.shape != nil && m.blocks != nil:
		return w.block(m.shape)
	case kind == jsontext.KindBeginObject && m.shape != nil:
		return w.object(m.shape)
	case kind == jsontext.KindBeginArray && m.shape != nil:
		return w.list(m.elem)
	}
	raw, err := w.ReadValue()
	switch {
	case err != nil:
		return err
	case kind == jsontext.KindNull && !m.null:
		return w.misformed("null")
	case kind != jsontext.KindNull && len(m.list) > 0 && !slices.Contains(m.list, text(raw)):
		return w.misformed("%s is not one of %s", quotable(raw), strings.Join(m.list, ", "))
	}
	return nil
}

// text returns a scalar without the quotes of a string.
func text(raw jsontext.Value) string {
	if raw.Kind() == jsontext.KindString {
		return Unquote(raw)
	}
	return string(raw)
}

func (w *walker) list(elem *member) error {
	if _, err := w.ReadToken(); err != nil {
		return err
	}
	for w.PeekKind() != jsontext.KindEndArray {
		if err := w.value(elem); err != nil {
			return err
		}
	}
	_, err := w.ReadToken()
	return err
}

func (w *walker) object(s *shape) error {
	if _, err := w.ReadToken(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for w.PeekKind() != jsontext.KindEndObject {
		key, err := w.ReadToken()
		if err != nil {
			return err
		}
		name, m := key.String(), s.elem
		if m == nil {
			if m = s.members[name]; m == nil {
				return misformed(w.within+w.StackPointer().Parent(), "unknown member %q", name)
			}
			seen[name] = true
		}
		if err := w.value(m); err != nil {
			return err
		}
	}
	if _, err := w.ReadToken(); err != nil {
		return err
	}
	for _, name := range s.always {
		if !seen[name] {
			return w.misformed("missing member %q", name)
		}
	}
	return nil
}

// block checks an object whose members depend on one of them.
func (w *walker) block(s *shape) error {
	raw, err := w.ReadValue()
	if err != nil {
		return err
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	name := ""
	if by := members[s.by]; by.Kind() == jsontext.KindString {
		name = Unquote(by)
	}
	of := s.blocks[name]
	if of == nil {
		return w.misformed("%s %q is not one of %s", s.by, name, strings.Join(slices.Sorted(maps.Keys(s.blocks)), ", "))
	}
	inner := walker{jsontext.NewDecoder(bytes.NewBuffer(raw)), w.within + w.StackPointer()}
	return inner.value(&member{shape: of})
}
