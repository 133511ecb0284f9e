package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads text into the struct that v points to, which is zero and of the type of the form. Unlike Unmarshal
// it refuses a text that is not of the form, and holds it to the limits of Screen. The error wraps ErrTruncated,
// ErrSyntax or ErrForm.
func (f *Form) Decode(text []byte, v any) error {
	_, err := f.DecodeScreened(text, v, NewStrings(nil))
	return err
}

// DecodeScreened is Decode and Screen in one pass: s reads all strings but the names of members, and refuses what
// its screen refuses. compact reports that there is no white space around tokens. Call Screen if it fails: before
// the failure, it may have seen only part of the text.
func (f *Form) DecodeScreened(text []byte, v any, s *Strings) (compact bool, err error) {
	// object and mapping find duplicate names in less time than package jsontext.
	d := decoder{
		Decoder: jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true)), text: text,
		strings: s, containers: maxContainers(text),
	}
	if err := d.value(&f.root, reflect.ValueOf(v).Elem()); err != nil {
		return false, explain(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("%w: byte %d: more than one value", ErrSyntax, d.InputOffset())
	}
	for _, c := range []byte("\t\r\n") { // not in strings
		if bytes.IndexByte(text, c) >= 0 {
			return false, nil
		}
	}
	return bytes.Count(text, []byte(" ")) == d.spaces, nil
}

// Find returns the value of the member at path within the objects of a text, or nil. The text need not be JSON.
func Find(text []byte, path ...string) []byte {
	for _, name := range path {
		text = find(text, name)
	}
	return text
}

func find(text []byte, name string) []byte {
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))
	if d.PeekKind() != jsontext.KindBeginObject {
		return nil
	}
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() == jsontext.KindString {
		key, _ := d.ReadToken()
		found := key.String() == name
		var value []byte
		if value, err = d.ReadValue(); found {
			return value
		}
	}
	return nil
}

// decoder reads text.
type decoder struct {
	*jsontext.Decoder
	text       []byte
	strings    *Strings
	spaces     int // in strings
	depth      int
	containers int // that may still begin
}

// misformed returns the error of the value that was read last.
func (d *decoder) misformed(format string, args ...any) error {
	return misformed(d.StackPointer(), format, args...)
}

// duplicate returns the error of a member whose name was read a second time.
func (d *decoder) duplicate() error {
	at := d.StackPointer()
	return misformed(at.Parent(), "duplicate member %q", at.LastToken())
}

// value reads the next value into v, the member m.
func (d *decoder) value(m *member, v reflect.Value) error {
	kind := d.PeekKind()
	if kind == jsontext.KindNull {
		if _, err := d.ReadToken(); err != nil || m.null {
			return err
		}
		return d.misformed("null")
	}
	if m.pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if m.shape == nil {
		return d.scalar(m, v, kind)
	}
	if d.depth, d.containers = d.depth+1, d.containers-1; d.depth > maxDepth || d.containers < 0 {
		return exceeded(d.InputOffset(), d.depth)
	}
	defer func() { d.depth-- }()
	switch {
	case m.kind == reflect.Slice && kind == jsontext.KindBeginArray:
		return d.list(m.elem, v)
	case m.kind == reflect.Map && kind == jsontext.KindBeginObject:
		return d.mapping(m.elem, v)
	case m.kind == reflect.Struct && kind == jsontext.KindBeginObject:
		return d.object(m.shape, v)
	case m.kind == reflect.Interface && kind == jsontext.KindBeginObject:
		p := reflect.New(m.behind)
		v.Set(p)
		return d.object(m.shape, p.Elem())
	}
	if err := d.SkipValue(); err != nil {
		return err
	}
	return d.misformed("%s", wanted(m.kind, nil))
}

// scalar reads a value that is neither a list nor an object.
func (d *decoder) scalar(m *member, v reflect.Value, kind jsontext.Kind) error {
	var err error
	switch {
	case kind == jsontext.KindNumber && m.kind != reflect.String && (v.CanInt() || v.CanFloat()):
		err = d.number(v)
	case kind == jsontext.KindString && !m.text && v.Kind() == reflect.String:
		var word string
		word, err = d.word()
		v.SetString(word)
	default:
		start := d.InputOffset()
		if err = json.UnmarshalDecode(d.Decoder, v.Addr().Interface()); err == nil && kind == jsontext.KindString {
			_, err = d.unquote(bytes.TrimLeft(d.text[start:d.InputOffset()], ":, \t\r\n"))
		}
	}
	switch {
	case err != nil:
		return err
	case !m.signed && (v.CanInt() && v.Int() < 0 || v.CanFloat() && v.Float() < 0):
		return d.misformed("%v is below 0", v)
	case len(m.list) > 0 && !m.lists(v):
		return d.misformed("%s is not one of %s", quotable(fmt.Appendf(nil, "%#v", v)), strings.Join(m.list, ", "))
	}
	return nil
}

// lists reports whether v is in the closed list.
func (m *member) lists(v reflect.Value) bool {
	if v.Kind() == reflect.String && !m.text {
		return slices.Contains(m.list, v.String())
	}
	return slices.Contains(m.list, fmt.Sprint(v))
}

// word reads a string, in less time than package json.
func (d *decoder) word() (string, error) {
	raw, err := d.ReadValue()
	if err != nil {
		return "", err
	}
	return d.unquote(raw)
}

// unquote returns the text of a string of the text, given in quotes.
func (d *decoder) unquote(raw []byte) (string, error) {
	d.spaces += bytes.Count(raw, []byte(" "))
	return d.strings.read(raw)
}

// number reads a number into v, an integer or a float, in less time than package json.
func (d *decoder) number(v reflect.Value) error {
	token, err := d.ReadToken()
	switch {
	case err != nil:
		return err
	case v.CanInt():
		var n int64
		n, err = token.Int()
		v.SetInt(n)
	default:
		var f float64
		f, err = token.Float()
		v.SetFloat(f)
	}
	if err != nil {
		return d.misformed("%s", wanted(v.Kind(), []byte(token.String())))
	}
	return nil
}

func (d *decoder) list(elem *member, v reflect.Value) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	for n := 0; d.PeekKind() != jsontext.KindEndArray; n++ {
		if n == v.Cap() {
			v.Grow(max(4, n))
		}
		v.SetLen(n + 1)
		if err := d.value(elem, v.Index(n)); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func (d *decoder) mapping(elem *member, v reflect.Value) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	t := v.Type()
	v.Set(reflect.MakeMap(t))
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := d.word()
		if err != nil {
			return err
		}
		key, value := reflect.ValueOf(name).Convert(t.Key()), reflect.New(t.Elem()).Elem()
		if v.MapIndex(key).IsValid() {
			return d.duplicate()
		}
		if err := d.value(elem, value); err != nil {
			return err
		}
		v.SetMapIndex(key, value)
	}
	_, err := d.ReadToken()
	return err
}

func (d *decoder) object(s *shape, v reflect.Value) error {
	block := v
	if s.blocks != nil {
		var err error
		if s, err = d.selected(s); err != nil {
			return err
		}
		p := reflect.New(s.block)
		v.FieldByIndex(s.field).Set(p)
		block = p.Elem()
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	var few [64]bool // on the stack
	seen := few[:]
	if len(s.members) > len(few) {
		seen = make([]bool, len(s.members))
	}
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := d.ReadValue() // unlike a token, it needs no copy
		if err != nil {
			return err
		}
		n, known := s.numbers[string(name[1:len(name)-1])]
		if !known {
			if n, known = s.numbers[Unquote(name)]; !known {
				return misformed(d.StackPointer().Parent(), "unknown member %q", Unquote(name))
			}
		}
		if seen[n] {
			return d.duplicate()
		}
		seen[n] = true
		m, in := &s.members[n], v
		if m.inBlock {
			in = block
		}
		if err := d.value(m, in.FieldByIndex(m.index)); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for _, n := range s.always {
		if !seen[n] {
			return d.misformed("missing member %q", s.members[n].name)
		}
	}
	return nil
}

// selected returns the shape with the block that a member of the next value, an object, selects.
func (d *decoder) selected(s *shape) (*shape, error) {
	name := Unquote(find(bytes.TrimLeft(d.text[d.InputOffset():], ":, \t\r\n"), s.by))
	if of := s.blocks[name]; of != nil {
		return of, nil
	}
	if err := d.SkipValue(); err != nil { // the selecting member may be behind the damage
		return nil, err
	}
	return nil, d.misformed("%s %q is not one of %s", s.by, name, strings.Join(slices.Sorted(maps.Keys(s.blocks)), ", "))
}
