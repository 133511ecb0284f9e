package planfile

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/encoding/charmap"
)

// node is a JSON value or an XML element, with its position. An XML element has its attributes as fields and
// the elements inside it as list. The methods keep the first error in the node's source instead of
// returning it.
type node struct {
	text   *source
	at     position         // for an attribute, the position of its element
	name   string           // of the element or attribute; in JSON, of the field whose value is the node or its array
	fields map[string]*node // of an object or element
	list   []*node          // of an array or element
	value  any              // string, json.Number, bool, nil, or quoted
}

// quoted is the value of an attribute, which can be a string or a number.
type quoted string

// source is a file being parsed, and its first error.
type source struct {
	file string
	err  error
}

// maxDepth is the maximum nesting depth of objects, arrays or elements. Plans need eight.
const maxDepth = 32

// fail records an error at a position, unless there is one already.
func (t *source) fail(at position, format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf("%s: %s", at.in(t.file), fmt.Sprintf(format, args...))
	}
}

// jsonReader reads JSON.
type jsonReader struct {
	*source
	*json.Decoder
	data  []byte
	lines []int // offsets at which lines begin
}

// parseJSON parses a file that contains one JSON value.
func parseJSON(file string, data []byte) (*node, error) {
	r := &jsonReader{source: &source{file: file}, Decoder: json.NewDecoder(bytes.NewReader(data)), data: data}
	r.UseNumber()
	offset := 0
	for line := range bytes.Lines(data) {
		r.lines = append(r.lines, offset)
		offset += len(line)
	}
	n := r.read(0, "")
	if r.err == nil {
		if _, err := r.Token(); !errors.Is(err, io.EOF) {
			r.fail(r.positionAt(int(r.InputOffset())), "text after the plan")
		}
	}
	return n, r.err
}

// positionAt returns the line and column, in bytes, of an offset.
func (r *jsonReader) positionAt(offset int) position {
	line, _ := slices.BinarySearch(r.lines, offset+1)
	return position{line, offset - r.lines[line-1] + 1}
}

// read reads the next value, which belongs to the field called name. It returns nil at the end of the enclosing
// object or array, and after an error.
func (r *jsonReader) read(depth int, name string) *node {
	begin := int(r.InputOffset())
	for begin < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[begin]) >= 0 {
		begin++
	}
	at := r.positionAt(begin)
	token, err := r.Token()
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		r.fail(r.positionAt(len(r.data)), "the file ends before the plan does")
		return nil
	case err != nil:
		r.fail(at, "%s", err.Error())
		return nil
	case depth > maxDepth:
		r.fail(at, "objects and arrays are nested more than %d deep", maxDepth)
		return nil
	}
	n := &node{text: r.source, at: at, name: name, value: token}
	switch token {
	case json.Delim('{'):
		n.fields = map[string]*node{}
		for r.err == nil {
			key := r.read(depth+1, "")
			if key == nil {
				break
			}
			field := key.value.(string)
			if n.has(field) {
				key.fail("field %q is a duplicate", field)
			}
			if v := r.read(depth+1, field); v != nil {
				n.fields[field] = v
			}
		}
	case json.Delim('['):
		n.list = []*node{}
		for r.err == nil {
			v := r.read(depth+1, name)
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

// characterSets are the encodings of one byte that XML files may have, by name in lower case.
var characterSets = map[string]*charmap.Charmap{
	"us-ascii": charmap.ISO8859_1, "ascii": charmap.ISO8859_1,
	"iso-8859-1": charmap.ISO8859_1, "latin-1": charmap.ISO8859_1, "latin1": charmap.ISO8859_1,
	"iso-8859-15": charmap.ISO8859_15, "windows-1252": charmap.Windows1252, "cp1252": charmap.Windows1252,
}

// parseXML parses a file that contains one XML element.
func parseXML(file string, data []byte) (*node, error) {
	d := xml.NewDecoder(bytes.NewReader(data))
	d.CharsetReader = func(charset string, in io.Reader) (io.Reader, error) {
		set := characterSets[strings.ToLower(charset)]
		if set == nil {
			return nil, fmt.Errorf("encoding %.20q, must be UTF-8, US-ASCII, ISO-8859-1, ISO-8859-15 or Windows-1252", charset)
		}
		return set.NewDecoder().Reader(in), nil
	}
	top := &node{text: &source{file: file}} // the parent of the file's element
	open := []*node{top}
	place := func() position {
		line, column := d.InputPos()
		return position{line, max(1, column)}
	}
	for {
		at, inner := place(), open[len(open)-1]
		token, err := d.Token()
		switch token := token.(type) {
		case xml.StartElement:
			n := newElement(top.text, at, token)
			switch {
			case inner == top && len(top.list) > 0:
				n.fail("text after the plan")
			case len(open) > maxDepth:
				n.fail("elements are nested more than %d deep", maxDepth)
			}
			inner.list, open = append(inner.list, n), append(open, n)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if words := bytes.TrimSpace(token); len(words) > 0 {
				top.text.fail(at, "text %.20q between elements", words)
			}
		}
		var syntax *xml.SyntaxError
		switch ends := errors.Is(err, io.EOF); {
		case ends && len(top.list) > 0:
			return top.list[0], top.text.err
		case ends || errors.As(err, &syntax) && syntax.Msg == "unexpected EOF":
			top.text.fail(place(), "the file ends before the plan does")
		case syntax != nil:
			top.text.fail(place(), "%s", syntax.Msg)
		case err != nil:
			top.text.fail(place(), "%s", err.Error())
		}
		if top.text.err != nil {
			return nil, top.text.err
		}
	}
}

func newElement(t *source, at position, e xml.StartElement) *node {
	n := &node{text: t, at: at, name: e.Name.Local, fields: map[string]*node{}}
	for _, a := range e.Attr {
		if n.has(a.Name.Local) {
			n.fail("<%s> has a duplicate attribute %s", n.name, a.Name.Local)
		}
		n.fields[a.Name.Local] = &node{text: t, at: at, name: fmt.Sprintf("<%s> %s", n.name, a.Name.Local), value: quoted(a.Value)}
	}
	return n
}

func (n *node) fail(format string, args ...any) { n.text.fail(n.at, format, args...) }

// wants fails with the name and value of the node, and with what the value must be instead.
func (n *node) wants(want string) {
	what := n.name
	switch v := n.value.(type) {
	case quoted:
		what += fmt.Sprintf("=%.40q,", v)
	case string:
		what += fmt.Sprintf(" %.20q", v)
	case json.Number:
		what += fmt.Sprintf(" %.20s", v)
	}
	n.fail("%s", strings.TrimSpace(what+" must be "+want))
}

// has reports whether an object or element has a field.
func (n *node) has(name string) bool { return n.fields[name] != nil }

// get returns a field. If it is missing, get fails and returns an empty node.
func (n *node) get(name string) *node {
	if f := n.fields[name]; f != nil {
		return f
	}
	switch {
	case n.fields == nil:
		n.wants(fmt.Sprintf("an object with a field %q", name))
	case n.value == nil:
		n.fail("<%s> has no attribute %s", n.name, name)
	default:
		n.fail("has no field %q", name)
	}
	return &node{text: n.text, at: n.at}
}

// items returns the elements of an array.
func (n *node) items() []*node {
	if n.list == nil {
		n.wants("an array")
	}
	return n.list
}

// prune removes the elements whose name is not the given one at their depth, and returns them: inside
// n the first name, inside these elements the second one, and so on.
func (n *node) prune(names ...string) (removed []*node) {
	n.list = slices.DeleteFunc(n.list, func(e *node) bool {
		if len(names) == 0 || e.name != names[0] {
			removed = append(removed, e)
			return true
		}
		removed = append(removed, e.prune(names[1:]...)...)
		return false
	})
	return removed
}

// optional returns the elements of the array in a field, or nil if the field is missing.
func (n *node) optional(name string) []*node {
	if !n.has(name) {
		return nil
	}
	return n.get(name).items()
}

// string returns the value as a string. It fails and returns "" if the value is not a string.
func (n *node) string() string {
	switch v := n.value.(type) {
	case string:
		return v
	case quoted:
		return string(v)
	}
	n.wants("a string")
	return ""
}

// oneOf fails unless the value is one of the given strings.
func (n *node) oneOf(list ...string) {
	if !slices.Contains(list, n.string()) {
		n.wants("one of " + strings.Join(list, ", "))
	}
}

// bool returns a JSON boolean. It fails and returns false if the value is not one.
func (n *node) bool() bool {
	b, ok := n.value.(bool)
	if !ok {
		n.wants("true or false")
	}
	return b
}

// digits returns the text of a number, or "" if the value is not a number.
func (n *node) digits() string {
	switch v := n.value.(type) {
	case json.Number:
		return v.String()
	case quoted:
		return string(v)
	}
	return ""
}

// number returns an integer from low to high. It fails and returns low if the value is anything else.
func (n *node) number(low, high int) int {
	i, err := strconv.Atoi(n.digits())
	if err != nil || i < low || i > high {
		want := fmt.Sprintf("a number from %d to %d", low, high)
		if low == high {
			want = strconv.Itoa(low)
		}
		n.wants(want)
		return low
	}
	return i
}

// bytes returns a number of bytes, which MSCCL++ counts up to 2⁶⁴−1. It fails and returns 0 if the value is
// anything else.
func (n *node) bytes() uint64 {
	size, err := strconv.ParseUint(n.digits(), 10, 64)
	if err != nil {
		n.wants("a number from 0 to 18446744073709551615")
	}
	return size
}

// index returns an index into a list of count elements. Errors call them what, such as "port channels of gpu 0".
// ok is false if the index is invalid.
func (n *node) index(count int, what string) (i int, ok bool) {
	if count == 0 {
		n.wants("left out: there are no " + what)
		return 0, false
	}
	i = n.number(0, count-1)
	return i, n.text.err == nil
}
