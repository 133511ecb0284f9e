package strictjson

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Lists are the closed lists of values, strings or ints, by the name that the `in` tag of a
// field gives.
type Lists map[string][]any

// Types holds what New cannot derive from the Go types.
type Types struct {
	Lists Lists
	// Behind is a value of the type in fields of type any, which then hold a pointer to one.
	Behind any
	// Blocks are values of the structs that a block field may point to. A block field is an
	// interface with the tag `json:"-" block:"family"`. The members of its struct are in the object
	// of the struct that has the field. The member "family" of that object is the key in Blocks.
	Blocks map[string]any
}

// Form is the form that the JSON of a type must have: all members that are always written, no unknown
// member, null only for pointers that are always written, no value outside of a closed list, and no number
// below 0 except in fields with the tag `sign:"any"`.
type Form struct{ root member }

// New returns the form of the type of v, a struct. Its fields must have JSON names;
// embedded structs are flattened. New panics if two members have the same name.
func New(v any, types Types) *Form {
	c := compiler{types: types, known: map[reflect.Type]*shape{}}
	return &Form{c.member(reflect.TypeOf(v))}
}

// member is a member of a struct, or an element of a list or map.
type member struct {
	*shape
	name    string
	kind    reflect.Kind // String for an encoding.TextUnmarshaler
	text    bool         // an encoding.TextUnmarshaler
	pointer bool         // to a value of the kind
	null    bool         // may be null
	list    []string     // the allowed values; empty: any
	signed  bool         // may be below 0
	index   []int        // of the field in its struct
	inBlock bool         // and whether that is the block
}

// shape is the form of a struct, list or map. It is nil for any other type.
type shape struct {
	elem    *member // of a list or map
	members []member
	numbers map[string]int    // of the members, by name
	always  []int             // the numbers of members that are always written
	by      string            // the member that selects one of blocks
	blocks  map[string]*shape // of the struct with one of the blocks
	block   reflect.Type      // the struct of the block
	field   []int             // the index of the field that points to it
	behind  reflect.Type      // of a field of type any
}

// compiler makes the shapes of types.
type compiler struct {
	types Types
	known map[reflect.Type]*shape
}

// member returns the form of a value of type t.
func (c *compiler) member(t reflect.Type) member {
	m := member{pointer: t.Kind() == reflect.Pointer}
	if m.pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		m.kind, m.text = reflect.String, true
	} else {
		m.kind, m.shape = t.Kind(), c.shape(t)
	}
	return m
}

func (c *compiler) shape(t reflect.Type) *shape {
	switch t.Kind() {
	case reflect.Interface:
		s := *c.shape(reflect.TypeOf(c.types.Behind))
		s.behind = reflect.TypeOf(c.types.Behind)
		return &s
	case reflect.Slice, reflect.Map:
		elem := c.member(t.Elem())
		elem.null = elem.pointer
		return &shape{elem: &elem}
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
	s := &shape{numbers: map[string]int{}, block: block}
	c.fields(s, t, nil, false)
	switch {
	case s.by == "":
	case block != nil:
		c.fields(s, block, nil, true)
	default:
		s.blocks = map[string]*shape{}
		for name, v := range c.types.Blocks {
			s.blocks[name] = c.structure(t, reflect.TypeOf(v))
		}
	}
	return s
}

// fields adds the fields of t, which is at index within the struct or block.
func (c *compiler) fields(s *shape, t reflect.Type, index []int, inBlock bool) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := slices.Concat(index, f.Index)
		_, twice := s.numbers[name]
		switch {
		case f.Anonymous && name == "":
			c.fields(s, f.Type, at, inBlock)
			continue
		case f.Tag.Get("block") != "":
			s.by, s.field = f.Tag.Get("block"), at
			continue
		case name == "" || !f.IsExported():
			panic(fmt.Sprintf("strictjson: %v.%s has no JSON name", t, f.Name))
		case name == "-":
			continue
		case twice:
			panic(fmt.Sprintf("strictjson: %v has two members %q", t, name))
		}
		m := c.member(f.Type)
		omitted := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		m.name, m.list, m.signed = name, c.list(f.Tag.Get("in")), f.Tag.Get("sign") == "any"
		m.index, m.inBlock, m.null = at, inBlock, m.pointer && !omitted
		if !omitted {
			s.always = append(s.always, len(s.members))
		}
		s.numbers[name] = len(s.members)
		s.members = append(s.members, m)
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
