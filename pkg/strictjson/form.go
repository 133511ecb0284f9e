// Package strictjson reads JSON into Go types in a single pass. It checks the whole grammar
// and UTF-8, passes every suspicious string to a screen, and limits depth and memory. In
// strict mode, a text must have exactly the members of the Go type, each once, with values
// of its type and closed list, as the JSON Schema of that type requires.
//
// It exists because aggregate must keep up with a disk: encoding/json reads each byte
// several times, and checks neither missing members nor closed lists.
package strictjson

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// ErrForm is wrapped by errors for a text that is JSON but does not have the form of the
// type.
var ErrForm = errors.New("does not match the schema")

// Lists are the closed lists of values, strings or ints, by the name that the `in` tag of a
// field gives.
type Lists map[string][]any

// Form reads texts of one type.
type Form struct {
	typ   reflect.Type
	value reader
}

// Input is a JSON text, and how to read it.
type Input struct {
	Text []byte
	// Buffer is space that may be overwritten. If Text is not compact, the compact text is
	// written to it.
	Buffer []byte
	// Screen, if not nil, is called with every string and unknown key, in quotes, that is
	// long or has a byte other than a letter, digit or underscore. Its error ends the
	// reading.
	Screen func(raw []byte) error
	// Strict requires every member that is always written, and refuses unknown members and
	// values outside the closed lists. Without it, unknown members are skipped and null is
	// the zero value.
	Strict bool
}

// Types has what the Go declarations of the types do not say.
type Types struct {
	Lists Lists // nil where reading is never strict
	// Behind is a value of the type in fields of type any.
	Behind any
	// Blocks are values of the structs that a block field may point to. A block field is an
	// interface with the tag `json:"-" block:"family"`. The members of its struct are in
	// the same object as those of the struct that has the field. The member "family" of
	// that object is the key in Blocks.
	Blocks map[string]any
}

// New returns the form of the type of v, a struct. Its fields must have JSON names;
// embedded structs are flattened. New panics if a type cannot be read, or if two members
// have the same name.
func New(v any, types Types) *Form {
	c := compiler{lists: types.Lists, blocks: types.Blocks, known: map[reflect.Type]reader{}}
	if types.Behind != nil {
		c.behind = reflect.TypeOf(types.Behind)
	}
	t := reflect.TypeOf(v)
	return &Form{t, c.reader(t, nil)}
}

// Read reads into the value that into points to, which must be a zero value of the form's
// type. It returns the text without white space between tokens. The error wraps
// ErrTruncated, ErrSyntax, ErrForm or the error of the screen.
func (f *Form) Read(in Input, into any) ([]byte, error) {
	v := reflect.ValueOf(into)
	if v.Type().Elem() != f.typ {
		panic(fmt.Sprintf("strictjson: a form of %v cannot be read into a %v", f.typ, v.Type()))
	}
	text := bytes.TrimRight(in.Text, " \t\r\n")
	s := scanner{in: text, out: in.Buffer[:0], text: in.Screen, strict: in.Strict, memory: leastMemory + memoryPerByte*len(text)}
	if err := f.value(&s, v.UnsafePointer()); err != nil {
		return nil, err
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	return s.compact(), nil
}

// Limits on the memory that is allocated for a text.
const (
	leastMemory   = 64 << 10
	memoryPerByte = 16
)

// reader reads one value into the variable that p points to.
type reader func(s *scanner, p unsafe.Pointer) error

// FormError names the place where a text does not have the required form.
type FormError struct {
	Path string // a.b[3].c
	What string
}

func (e *FormError) Error() string {
	if e.Path == "" {
		return e.What
	}
	return strings.TrimPrefix(e.Path, ".") + ": " + e.What
}

// Unwrap returns ErrForm.
func (e *FormError) Unwrap() error { return ErrForm }

func misformed(format string, args ...any) error {
	return &FormError{What: fmt.Sprintf(format, args...)}
}

// within adds a step of the path to the value that err is about.
func within(err error, step string) error {
	if e, ok := errors.AsType[*FormError](err); ok {
		e.Path = step + e.Path
	}
	return err
}

// compiler makes the readers of types.
type compiler struct {
	lists  Lists
	behind reflect.Type
	blocks map[string]any
	known  map[reflect.Type]reader
}

// reader returns the reader of t. If list is not empty, strict values must be in it.
func (c *compiler) reader(t reflect.Type, list []any) reader {
	if r, ok := c.known[t]; ok && list == nil {
		return r
	}
	r := c.make(t, list)
	if list == nil {
		c.known[t] = r
	}
	return r
}

func (c *compiler) make(t reflect.Type, list []any) reader {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return notNull(textReader(t))
	}
	switch t.Kind() {
	case reflect.Bool:
		return notNull(readBool)
	case reflect.String:
		words := make([]string, len(list))
		for i, v := range list {
			words[i] = fmt.Sprint(v)
		}
		return notNull(stringReader(words))
	case reflect.Int, reflect.Int64:
		return notNull(intReader(list))
	case reflect.Uint64:
		return notNull(readUint)
	case reflect.Float64:
		return notNull(readFloat)
	case reflect.Pointer:
		return c.pointer(t, list)
	case reflect.Slice:
		return notNull(c.slice(t))
	case reflect.Map:
		return notNull(c.mapped(t))
	case reflect.Struct:
		return notNull(c.structure(t))
	case reflect.Interface:
		return c.dynamic()
	default:
		panic(fmt.Sprintf("strictjson: %v cannot be read", t))
	}
}

// notNull reads null as the zero value, unless reading is strict.
func notNull(r reader) reader {
	return func(s *scanner, p unsafe.Pointer) error {
		if s.peek() == 'n' {
			if s.strict {
				return misformed("null")
			}
			return s.literal("null")
		}
		return r(s, p)
	}
}

func (c *compiler) pointer(t reflect.Type, list []any) reader {
	elem := t.Elem()
	read := c.reader(elem, list)
	return func(s *scanner, p unsafe.Pointer) error {
		if s.peek() == 'n' {
			return s.literal("null")
		}
		if err := s.allocate(elem.Size()); err != nil {
			return err
		}
		v := reflect.New(elem).UnsafePointer()
		*(*unsafe.Pointer)(p) = v
		return read(s, v)
	}
}

// dynamic reads a value of type any as a pointer to Types.Behind.
func (c *compiler) dynamic() reader {
	if c.behind == nil {
		panic("strictjson: no type behind an interface")
	}
	behind := c.behind
	read := c.reader(behind, nil)
	return func(s *scanner, p unsafe.Pointer) error {
		v := reflect.New(behind)
		*(*any)(p) = v.Interface()
		return read(s, v.UnsafePointer())
	}
}

func (c *compiler) slice(t reflect.Type) reader {
	elem := t.Elem()
	if k := elem.Kind(); (k == reflect.Int || k == reflect.Int64) && elem.Size() == 8 {
		return ints
	}
	read := c.reader(elem, nil)
	size := elem.Size()
	return func(s *scanner, p unsafe.Pointer) error {
		v := reflect.NewAt(t, p).Elem()
		v.Set(reflect.MakeSlice(t, 0, 0))
		n := 0
		return s.array(func() error {
			if n == v.Cap() {
				more := max(4, n)
				if err := s.allocate(uintptr(more) * size); err != nil {
					return err
				}
				v.Grow(more)
			}
			n++
			v.SetLen(n)
			if err := read(s, unsafe.Add(v.UnsafePointer(), uintptr(n-1)*size)); err != nil {
				return within(err, fmt.Sprintf("[%d]", n-1))
			}
			return nil
		})
	}
}

// mapped reads objects whose keys the schema does not list.
func (c *compiler) mapped(t reflect.Type) reader {
	elem := t.Elem()
	read := c.reader(elem, nil)
	return func(s *scanner, p unsafe.Pointer) error {
		m := reflect.NewAt(t, p).Elem()
		m.Set(reflect.MakeMap(t))
		return s.object(func(raw []byte) error {
			key := Unquote(raw)
			k := reflect.ValueOf(key).Convert(t.Key())
			if m.MapIndex(k).IsValid() {
				return misformed("duplicate member %q", key)
			}
			if err := s.allocate(2*elem.Size() + 32); err != nil {
				return err
			}
			v := reflect.New(elem)
			if err := read(s, v.UnsafePointer()); err != nil {
				return within(err, "."+key)
			}
			m.SetMapIndex(k, v.Elem())
			return nil
		})
	}
}

// member is one field of a struct.
type member struct {
	name    string
	quoted  []byte // "name":
	key     []byte // "name"
	offset  uintptr
	inBlock bool // offset is relative to the block
	read    reader
	// always reports whether the member is written even if it is empty.
	always bool
}

// block is the field for the struct with the further members of the object.
type block struct {
	field reflect.StructField
	by    string       // the member whose value selects the struct
	typ   reflect.Type // the struct; nil for none
}

// object reads a struct from a JSON object.
type object struct {
	members []member
	index   map[string]int // by key with its quotes
	block   *block
	always  uint64 // bits of the members that are always written
}

func (c *compiler) structure(t reflect.Type) reader {
	bare := c.object(t, nil)
	if bare.block == nil {
		return bare.read
	}
	with := make(map[string]*object, len(c.blocks))
	for name, v := range c.blocks {
		with[name] = c.object(t, reflect.TypeOf(v))
	}
	return func(s *scanner, p unsafe.Pointer) error {
		name := s.ahead(bare.block.by)
		if o := with[name]; o != nil {
			return o.read(s, p)
		}
		return misformed("%s %q is not one of %s", bare.block.by, name, strings.Join(slices.Sorted(maps.Keys(with)), ", "))
	}
}

// object returns the reader of struct t with a block of the given type.
func (c *compiler) object(t, blockType reflect.Type) *object {
	o := &object{index: map[string]int{}}
	c.fields(o, t, false)
	if blockType != nil {
		o.block.typ = blockType
		c.fields(o, blockType, true)
	}
	if len(o.members) > 64 {
		panic(fmt.Sprintf("strictjson: %v has more than 64 members", t))
	}
	for i, m := range o.members {
		if _, twice := o.index[string(m.key)]; twice {
			panic(fmt.Sprintf("strictjson: %v has two members %q", t, m.name))
		}
		o.index[string(m.key)] = i
		if m.always {
			o.always |= 1 << i
		}
	}
	return o
}

// fields adds the fields of t, the block or what has it.
func (c *compiler) fields(o *object, t reflect.Type, inBlock bool) {
	for f := range fieldsOf(t) {
		switch {
		case f.block != "" && (f.Type.Kind() != reflect.Interface || f.name != "-" || o.block != nil || inBlock):
			panic(fmt.Sprintf("strictjson: %v.%s cannot be a block", t, f.Name))
		case f.block != "":
			o.block = &block{field: f.StructField, by: f.block}
		case f.name == "" || !f.IsExported():
			panic(fmt.Sprintf("strictjson: %v.%s has no JSON name", t, f.Name))
		case f.name == "-":
		default:
			omitted := f.omitEmpty || f.omitZero
			read := c.reader(f.Type, c.list(f.Tag.Get("in")))
			if omitted && f.Type.Kind() == reflect.Pointer {
				read = notNull(read)
			}
			o.members = append(o.members, member{
				name: f.name, key: []byte(`"` + f.name + `"`), quoted: []byte(`"` + f.name + `":`),
				offset: f.Offset, inBlock: inBlock, read: read, always: !omitted,
			})
		}
	}
}

// list returns the closed list of that name; nil for no name, or where no form of these
// types is read strictly.
func (c *compiler) list(name string) []any {
	if name == "" || c.lists == nil {
		return nil
	}
	if c.lists[name] == nil {
		panic("strictjson: no closed list is called " + name)
	}
	return c.lists[name]
}

// field is a field of a struct and what its tags say.
type field struct {
	reflect.StructField // its Offset is from the start of the outermost struct

	name                string // in JSON; "-" for none
	block               string // see Types.Blocks
	omitEmpty, omitZero bool
}

// fieldsOf yields the fields of struct t, those of embedded structs in their place.
func fieldsOf(t reflect.Type) iter.Seq[field] {
	return func(yield func(field) bool) {
		for s := range t.Fields() {
			name, options, _ := strings.Cut(s.Tag.Get("json"), ",")
			if s.Anonymous && name == "" && s.Type.Kind() == reflect.Struct {
				for f := range fieldsOf(s.Type) {
					if f.Offset += s.Offset; !yield(f) {
						return
					}
				}
				continue
			}
			if !yield(field{s, name, s.Tag.Get("block"), strings.Contains(options, "omitempty"), strings.Contains(options, "omitzero")}) {
				return
			}
		}
	}
}

// read reads an object. It is fastest if the members are in the order of the fields.
func (o *object) read(s *scanner, p unsafe.Pointer) error {
	var inBlock unsafe.Pointer
	if o.block != nil && o.block.typ != nil {
		v := reflect.New(o.block.typ)
		reflect.NewAt(o.block.field.Type, unsafe.Add(p, o.block.field.Offset)).Elem().Set(v)
		inBlock = v.UnsafePointer()
	}
	var seen uint64
	if more, err := s.open('{', '}', "an object"); err != nil {
		return err
	} else if !more {
		return o.complete(s, seen)
	}
	next := 0
	for {
		i, err := o.member(s, next)
		if err != nil {
			return err
		}
		if i < 0 {
			err = s.skip()
		} else {
			next = i + 1
			m := &o.members[i]
			if seen&(1<<i) != 0 {
				return misformed("duplicate member %q", m.name)
			}
			seen |= 1 << i
			base := p
			if m.inBlock {
				base = inBlock
			}
			if err = m.read(s, unsafe.Add(base, m.offset)); err != nil {
				err = within(err, "."+m.name)
			}
		}
		if err != nil {
			return err
		}
		if more, err := s.more('}', "a comma or the end of the object"); err != nil {
			return err
		} else if !more {
			break
		}
	}
	return o.complete(s, seen)
}

// member reads a key and its colon, and returns the index of the member. It tries next
// first. −1 is an unknown member, which the caller skips.
func (o *object) member(s *scanner, next int) (int, error) {
	s.space()
	for i := next; i < len(o.members); i++ {
		if m := &o.members[i]; bytes.HasPrefix(s.in[s.at:], m.quoted) {
			s.at += len(m.quoted)
			return i, nil
		} else if m.always {
			break
		}
	}
	key, err := s.key()
	if err != nil {
		return 0, err
	}
	if i, ok := o.index[string(key)]; ok {
		return i, nil
	}
	if s.strict {
		return 0, misformed("unknown member %s", key)
	}
	return -1, nil
}

// complete returns an error if strict text lacks a member.
func (o *object) complete(s *scanner, seen uint64) error {
	if !s.strict || seen&o.always == o.always {
		return nil
	}
	return misformed("missing member %q", o.members[bits.TrailingZeros64(o.always&^seen)].name)
}
