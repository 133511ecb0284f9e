package planfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// node is a value of a JSON text, with its place. What is asked of it and missing is kept as
// the first error of its text.
type node struct {
	text   *jsonText
	offset int
	name   string           // of the field that it is, or that it is in a list of
	fields map[string]*node // of an object
	list   []*node          // of an array
	value  any              // string, json.Number, bool or nil
}

// jsonText is a text that is read, and the first thing that is wrong with it.
type jsonText struct {
	file string
	data []byte
	err  error
}

// mostDepth is of objects and arrays inside each other; plans have eight.
const mostDepth = 32

// at returns the line and column, in bytes, of an offset.
func (t *jsonText) at(offset int) position {
	before := t.data[:min(max(offset, 0), len(t.data))]
	return position{1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')}
}

func (t *jsonText) fail(offset int, format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf("%s: %s", t.at(offset).in(t.file), fmt.Sprintf(format, args...))
	}
}

// parse reads a text of one value.
func parse(file string, data []byte) (*node, error) {
	t := &jsonText{file: file, data: data}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	n := t.read(d, 0, "")
	if t.err == nil {
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			t.fail(int(d.InputOffset()), "text after the plan")
		}
	}
	return n, t.err
}

// read reads the next value, which is the field of a name, or returns nil at the end of the open one.
func (t *jsonText) read(d *json.Decoder, depth int, name string) *node {
	begin := int(d.InputOffset())
	for begin < len(t.data) && bytes.IndexByte([]byte(" \t\r\n,:"), t.data[begin]) >= 0 {
		begin++
	}
	token, err := d.Token()
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		t.fail(len(t.data), "the file ends before the plan does")
		return nil
	case errors.As(err, &syntax):
		t.fail(begin, "%s", syntax.Error())
		return nil
	case err != nil:
		t.fail(begin, "%s", err.Error())
		return nil
	case depth > mostDepth:
		t.fail(begin, "more than %d objects and arrays inside each other", mostDepth)
		return nil
	}
	n := &node{text: t, offset: begin, name: name, value: token}
	switch token {
	case json.Delim('{'):
		n.fields = map[string]*node{}
		for t.err == nil {
			key := t.read(d, depth+1, "")
			if key == nil {
				break
			}
			field := key.value.(string)
			if n.has(field) {
				t.fail(key.offset, "field %q is a duplicate", field)
			}
			if v := t.read(d, depth+1, field); v != nil {
				n.fields[field] = v
			}
		}
	case json.Delim('['):
		n.list = []*node{}
		for t.err == nil {
			v := t.read(d, depth+1, name)
			if v == nil {
				break
			}
			n.list = append(n.list, v)
		}
	case json.Delim('}'), json.Delim(']'):
		return nil
	}
	return n
}

func (n *node) fail(format string, args ...any) { n.text.fail(n.offset, format, args...) }

// wants fails with the name and the value of the node, and what it must be instead.
func (n *node) wants(want string) {
	what := n.name
	switch v := n.value.(type) {
	case string:
		what += fmt.Sprintf(" %.20q", v)
	case json.Number:
		what += fmt.Sprintf(" %.20s", v)
	}
	n.fail("%s", strings.TrimSpace(what+" must be "+want))
}

// numbers says which numbers a value can have.
func numbers(least, most int) string {
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("a number from %d to %d", least, most)
}

// has reports whether an object has a field.
func (n *node) has(name string) bool { return n.fields[name] != nil }

// get returns a field of an object. If it is missing, that is an error of the text, and get
// returns an empty value.
func (n *node) get(name string) *node {
	if f := n.fields[name]; f != nil {
		return f
	}
	if n.fields == nil {
		n.wants(fmt.Sprintf("an object with a field %q", name))
	} else {
		n.fail("has no field %q", name)
	}
	return &node{text: n.text, offset: n.offset}
}

// items returns the elements of an array.
func (n *node) items() []*node {
	if n.list == nil {
		n.wants("an array")
	}
	return n.list
}

// optional returns the elements of an array that may be missing.
func (n *node) optional(name string) []*node {
	if !n.has(name) {
		return nil
	}
	return n.get(name).items()
}

func (n *node) string() string {
	s, ok := n.value.(string)
	if !ok {
		n.wants("a string")
	}
	return s
}

func (n *node) bool() bool {
	b, ok := n.value.(bool)
	if !ok {
		n.wants("true or false")
	}
	return b
}

// number returns an integer from least to most; least if it is anything else.
func (n *node) number(least, most int) int {
	text, _ := n.value.(json.Number)
	i, err := strconv.Atoi(text.String())
	if err != nil || i < least || i > most {
		n.wants(numbers(least, most))
		return least
	}
	return i
}

// bytes returns a number of bytes, which MSCCL++ counts up to 2⁶⁴−1; 0 if it is anything else.
func (n *node) bytes() uint64 {
	text, _ := n.value.(json.Number)
	size, err := strconv.ParseUint(text.String(), 10, 64)
	if err != nil {
		n.wants("a number from 0 to 18446744073709551615")
	}
	return size
}

// index returns the index of one of count things, such as "port channels of gpu 0"; ok is false
// if it is that of none.
func (n *node) index(count int, of string) (i int, ok bool) {
	if count == 0 {
		n.wants("left out: there are no " + of)
		return 0, false
	}
	i = n.number(0, count-1)
	return i, n.text.err == nil
}
