package strictjson

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads text, which Screen has accepted, into the struct that v points to, which is zero and of the type of
// the form. Unlike Unmarshal it refuses a text that is not of the form. The error wraps ErrTruncated, ErrSyntax or
// ErrForm.
func (f *Form) Decode(text []byte, v any) error {
	c := cursor{text: text}
	if err := c.value(&f.root, reflect.ValueOf(v).Elem()); err != nil {
		return err
	}
	if c.peek() != 0 || c.at < len(text) {
		return c.unexpected()
	}
	return nil
}

// Find returns the value of the member at path within the objects of a text, or nil. The text need not be JSON.
func Find(text []byte, path ...string) []byte {
	for _, name := range path {
		c := cursor{text: text}
		text = c.find(name)
	}
	return text
}

// cursor reads a text.
type cursor struct {
	text []byte
	at   int
}

// peek returns the first byte of the next token, or 0 at the end of the text.
func (c *cursor) peek() byte {
	for ; c.at < len(c.text); c.at++ {
		switch b := c.text[c.at]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

// unexpected returns the error of a text that does not go on as JSON must.
func (c *cursor) unexpected() error {
	if c.at >= len(c.text) {
		return ErrTruncated
	}
	return fmt.Errorf("%w: byte %d: unexpected %q", ErrSyntax, c.at, c.text[c.at])
}

// value reads the next value into v, the member m.
func (c *cursor) value(m *member, v reflect.Value) error {
	b := c.peek()
	if b == 'n' {
		if err := c.word("null"); err != nil || m.null {
			return err
		}
		return &FormError{What: "null"}
	}
	if m.pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch {
	case m.text && b == '"', m.kind == reflect.String && b == '"':
		return c.stringValue(m, v)
	case m.text: // and no string
	case m.kind == reflect.Bool && b == 't':
		v.SetBool(true)
		return c.word("true")
	case m.kind == reflect.Bool && b == 'f':
		return c.word("false")
	case m.kind == reflect.Slice && b == '[':
		return c.list(m.elem, v)
	case m.kind == reflect.Map && b == '{':
		return c.mapping(m.elem, v)
	case m.kind == reflect.Struct && b == '{':
		return c.object(m.shape, v)
	case m.kind == reflect.Interface && b == '{':
		p := reflect.New(m.behind)
		v.Set(p)
		return c.object(m.shape, p.Elem())
	case numeric(m.kind) && (b == '-' || b-'0' <= 9):
		return c.numberValue(m, v)
	}
	return c.mistyped(m, b)
}

// mistyped returns the error of a value that is not what the member m wants.
func (c *cursor) mistyped(m *member, b byte) error {
	switch {
	case b == 0 || strings.IndexByte(`"{[tf-0123456789`, b) < 0:
		return c.unexpected()
	case m.text:
		return &FormError{What: wanted(reflect.String, nil)}
	case strings.IndexByte(`"{[tf`, b) >= 0:
		return &FormError{What: wanted(m.kind, nil)}
	}
	number, err := c.number()
	if err != nil {
		return err
	}
	return &FormError{What: wanted(m.kind, number)}
}

func numeric(kind reflect.Kind) bool {
	return kind == reflect.Int || kind == reflect.Int64 || kind == reflect.Uint64 || kind == reflect.Float64
}

// word reads true, false or null.
func (c *cursor) word(word string) error {
	for i := range len(word) {
		if c.at >= len(c.text) || c.text[c.at] != word[i] {
			return c.unexpected()
		}
		c.at++
	}
	return nil
}

// stringValue reads a string.
func (c *cursor) stringValue(m *member, v reflect.Value) error {
	text, err := c.quoted()
	if err != nil {
		return err
	}
	if m.text {
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(text); err != nil {
			return &FormError{What: err.Error()}
		}
		return nil
	}
	if len(m.list) == 0 {
		v.SetString(string(text))
		return nil
	}
	for _, word := range m.list {
		if word == string(text) {
			v.SetString(word)
			return nil
		}
	}
	return m.closed(strconv.AppendQuote(nil, string(text)))
}

// closed returns the error of a value outside of the closed list.
func (m *member) closed(raw []byte) error {
	return &FormError{What: fmt.Sprintf("%s is not one of %s", quotable(raw), strings.Join(m.list, ", "))}
}

// numberValue reads a number.
func (c *cursor) numberValue(m *member, v reflect.Value) error {
	raw, err := c.number()
	if err != nil {
		return err
	}
	switch m.kind {
	case reflect.Float64:
		var f float64
		f, err = strconv.ParseFloat(string(raw), 64)
		v.SetFloat(f)
	case reflect.Uint64:
		var n uint64
		n, err = strconv.ParseUint(string(raw), 10, 64)
		v.SetUint(n)
	default:
		var n int64
		n, err = strconv.ParseInt(string(raw), 10, 64)
		v.SetInt(n)
	}
	switch {
	case err != nil:
		return &FormError{What: wanted(m.kind, raw)}
	case raw[0] == '-' && !m.signed && string(raw) != "-0":
		return &FormError{What: quotable(raw) + " is below 0"}
	case len(m.list) > 0 && !slices.Contains(m.list, string(raw)):
		return m.closed(raw)
	}
	return nil
}

// number reads a number, and returns its text.
func (c *cursor) number() ([]byte, error) {
	start := c.at
	if c.is('-') {
		c.at++
	}
	zero := c.is('0')
	if whole := c.digits(); whole == 0 || zero && whole > 1 {
		return nil, c.unexpected()
	}
	if c.is('.') {
		c.at++
		if c.digits() == 0 {
			return nil, c.unexpected()
		}
	}
	if c.is('e') || c.is('E') {
		c.at++
		if c.is('+') || c.is('-') {
			c.at++
		}
		if c.digits() == 0 {
			return nil, c.unexpected()
		}
	}
	return c.text[start:c.at], nil
}

// is reports whether the next byte is b.
func (c *cursor) is(b byte) bool { return c.at < len(c.text) && c.text[c.at] == b }

// digits skips digits, and returns how many.
func (c *cursor) digits() int {
	start := c.at
	for c.at < len(c.text) && c.text[c.at]-'0' <= 9 {
		c.at++
	}
	return c.at - start
}

// quoted reads a string, and returns it without quotes.
func (c *cursor) quoted() ([]byte, error) {
	start, simple := c.at, true
	for i := start + 1; i < len(c.text); i++ {
		switch b := c.text[i]; {
		case plainBytes[b]:
		case b == '"' && simple:
			c.at = i + 1
			return c.text[start+1 : i], nil
		case b == '"':
			text, err := jsontext.AppendUnquote(nil, c.text[start:i+1])
			if err != nil {
				return nil, fmt.Errorf("%w: byte %d: %w", ErrSyntax, start, err)
			}
			c.at = i + 1
			return text, nil
		case b == '\\':
			i++
			simple = false
		case b < ' ' || b >= 0x80:
			simple = false
		}
	}
	c.at = len(c.text)
	return nil, ErrTruncated
}

// next goes to the next element or member of a list or object, and reports whether there is one. If not, it
// leaves the list or object, which ends with end.
func (c *cursor) next(first bool, end byte) (bool, error) {
	switch b := c.peek(); {
	case b == end:
		c.at++
		return false, nil
	case first:
		return true, nil
	case b == ',':
		c.at++
		return true, nil
	}
	return false, c.unexpected()
}

// key reads the name of a member, up to its value.
func (c *cursor) key() ([]byte, error) {
	if c.peek() != '"' {
		return nil, c.unexpected()
	}
	name, err := c.quoted()
	if err != nil {
		return nil, err
	}
	if c.peek() != ':' {
		return nil, c.unexpected()
	}
	c.at++
	return name, nil
}

func (c *cursor) list(elem *member, v reflect.Value) error {
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	c.at++
	for n := 0; ; n++ {
		more, err := c.next(n == 0, ']')
		if err != nil || !more {
			return err
		}
		if n == v.Cap() {
			v.Grow(max(4, n))
		}
		v.SetLen(n + 1)
		if err := c.value(elem, v.Index(n)); err != nil {
			return within(fmt.Sprintf("[%d]", n), err)
		}
	}
}

func (c *cursor) mapping(elem *member, v reflect.Value) error {
	t := v.Type()
	v.Set(reflect.MakeMap(t))
	c.at++
	for first := true; ; first = false {
		more, err := c.next(first, '}')
		if err != nil || !more {
			return err
		}
		name, err := c.key()
		if err != nil {
			return err
		}
		key, value := reflect.ValueOf(string(name)).Convert(t.Key()), reflect.New(t.Elem()).Elem()
		if v.MapIndex(key).IsValid() {
			return duplicate(name)
		}
		if err := c.value(elem, value); err != nil {
			return within(string(name), err)
		}
		v.SetMapIndex(key, value)
	}
}

func duplicate(name []byte) error { return &FormError{What: fmt.Sprintf("duplicate member %q", name)} }

// maxMembers is the maximum number of members of a struct.
const maxMembers = 128

func (c *cursor) object(s *shape, v reflect.Value) error {
	var block reflect.Value
	if s.blocks != nil {
		var err error
		if s, err = c.selected(s); err != nil {
			return err
		}
		p := reflect.New(s.block)
		v.FieldByIndex(s.field).Set(p)
		block = p.Elem()
	}
	var seen [maxMembers]bool
	c.at++
	for n, first := 0, true; ; first = false {
		more, err := c.next(first, '}')
		if err != nil {
			return err
		}
		if !more {
			break
		}
		name, err := c.key()
		if err != nil {
			return err
		}
		if n == len(s.members) || s.members[n].name != string(name) { // members are mostly in order
			var known bool
			if n, known = s.numbers[string(name)]; !known {
				return &FormError{What: fmt.Sprintf("unknown member %q", name)}
			}
		}
		if seen[n] {
			return duplicate(name)
		}
		seen[n] = true
		m, in := &s.members[n], v
		if m.inBlock {
			in = block
		}
		if err := c.value(m, in.FieldByIndex(m.index)); err != nil {
			return within(m.name, err)
		}
		n++
	}
	for _, n := range s.always {
		if !seen[n] {
			return &FormError{What: fmt.Sprintf("missing member %q", s.members[n].name)}
		}
	}
	return nil
}

// selected returns the shape with the block that a member of the object at the cursor selects.
func (c *cursor) selected(s *shape) (*shape, error) {
	ahead := *c
	name := ""
	if by := ahead.find(s.by); len(by) > 0 {
		if by[0] != '"' {
			return nil, &FormError{s.by, wanted(reflect.String, nil)}
		}
		name = Unquote(by)
	}
	if of := s.blocks[name]; of != nil {
		return of, nil
	}
	return nil, &FormError{What: fmt.Sprintf("%s %q is not one of %s", s.by, name, strings.Join(slices.Sorted(maps.Keys(s.blocks)), ", "))}
}

// find returns the value of the named member of the object at the cursor, or nil. The text may not be JSON.
func (c *cursor) find(name string) []byte {
	if c.peek() != '{' {
		return nil
	}
	c.at++
	for first := true; ; first = false {
		more, err := c.next(first, '}')
		if err != nil || !more {
			return nil
		}
		key, err := c.key()
		if err != nil {
			return nil
		}
		start := c.at
		c.pass()
		if string(key) == name {
			return bytes.TrimSpace(c.text[start:c.at])
		}
	}
}

// pass goes past a value. It does not find every syntax error.
func (c *cursor) pass() {
	for depth := 0; c.at < len(c.text); c.at++ {
		switch c.text[c.at] {
		case '"':
			end, _ := stringEnd(c.text, c.at)
			if end < 0 {
				end = len(c.text)
			}
			c.at = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return
			}
		case ',':
			if depth == 0 {
				return
			}
		}
	}
}

// within adds a place, a member or [index], to the path of a FormError.
func within(place string, err error) error {
	e, ok := errors.AsType[*FormError](err)
	if !ok {
		return err
	}
	if e.Path != "" && e.Path[0] != '[' {
		place += "."
	}
	return &FormError{place + e.Path, e.What}
}
