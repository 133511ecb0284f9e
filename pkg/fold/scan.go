package fold

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Head is what a fold reads of a document; the rest of it is only checked to
// be JSON.
type Head struct {
	Version     int
	RecordType  string
	GeneratedAt string
	CaseID      string
	Ordinal     int
	RunID       string
	RunAttempt  string
	SourceSHA   string
	// MatrixSHA256 is empty where the document names no matrix.
	MatrixSHA256 string
	Status       string
	Reasons      []string
}

// maxDepth bounds the nesting of a document.
const maxDepth = 64

// scanner reads one JSON text in a single pass: it checks the whole grammar
// and UTF-8, drops white space, hands every string to text and picks the head.
// It exists because a fold must keep up with a disk: encoding/json reads each
// byte several times and builds values that nobody wants.
type scanner struct {
	in   []byte
	at   int
	out  []byte // compact text so far
	from int    // in[from:at] is compact and not yet in out
	// text is called with the raw text, with its quotes, of every string that
	// could hold something private.
	text  func(raw []byte) error
	depth int
}

var (
	errTruncated = errors.New("ends in the middle of a JSON value")
	errSyntax    = errors.New("not JSON")
)

// scan returns the compact form of the JSON text in, which is in itself where
// it is compact already and else in buf, and the head of the document. text
// sees every string or key, with its quotes, that is long or has a byte outside
// letters, digits and underscore; its error ends the scan.
func scan(in, buf []byte, text func(raw []byte) error) ([]byte, Head, error) {
	var h Head
	s := scanner{in: in, out: buf[:0], text: text}
	err := s.document(&h)
	if err == nil {
		s.space()
		if s.at != len(in) {
			err = s.fault("text after the document")
		}
	}
	if err != nil {
		return nil, h, err
	}
	if len(s.out) == 0 {
		return in[s.from:s.at], h, nil
	}
	return append(s.out, in[s.from:s.at]...), h, nil
}

func (s *scanner) fault(format string, args ...any) error {
	return fmt.Errorf("%w: byte %d: %s", errSyntax, s.at, fmt.Sprintf(format, args...))
}

// space skips white space and leaves it out of the output.
func (s *scanner) space() {
	if s.at == len(s.in) || s.in[s.at] > ' ' {
		return
	}
	start := s.at
	for s.at < len(s.in) && (s.in[s.at] == ' ' || s.in[s.at] == '\n' || s.in[s.at] == '\t' || s.in[s.at] == '\r') {
		s.at++
	}
	if s.at == start {
		return
	}
	if start > s.from {
		s.out = append(s.out, s.in[s.from:start]...)
	}
	s.from = s.at
}

// peek returns the next byte that is not white space, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.at == len(s.in) {
		return 0
	}
	return s.in[s.at]
}

// object reads an object and calls member with each key, still quoted; member
// reads the value.
func (s *scanner) object(member func(key []byte) error) error {
	if c := s.peek(); c != '{' {
		return s.unexpected(c, "an object")
	}
	s.at++
	if s.depth++; s.depth > maxDepth {
		return s.fault("nested deeper than %d", maxDepth)
	}
	if s.peek() == '}' {
		s.at++
		s.depth--
		return nil
	}
	for {
		if c := s.peek(); c != '"' {
			return s.unexpected(c, "a key")
		}
		key, err := s.str()
		if err != nil {
			return err
		}
		if c := s.peek(); c != ':' {
			return s.unexpected(c, "a colon")
		}
		s.at++
		if err := member(key); err != nil {
			return err
		}
		switch c := s.peek(); c {
		case ',':
			s.at++
		case '}':
			s.at++
			s.depth--
			return nil
		default:
			return s.unexpected(c, "a comma or the end of the object")
		}
	}
}

// array reads an array; element reads each element.
func (s *scanner) array(element func() error) error {
	if c := s.peek(); c != '[' {
		return s.unexpected(c, "a list")
	}
	s.at++
	if s.depth++; s.depth > maxDepth {
		return s.fault("nested deeper than %d", maxDepth)
	}
	if s.peek() == ']' {
		s.at++
		s.depth--
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		switch c := s.peek(); c {
		case ',':
			s.at++
		case ']':
			s.at++
			s.depth--
			return nil
		default:
			return s.unexpected(c, "a comma or the end of the list")
		}
	}
}

func (s *scanner) unexpected(c byte, want string) error {
	if c == 0 && s.at == len(s.in) {
		return errTruncated
	}
	return s.fault("%q where %s should be", c, want)
}

// skip reads any value.
func (s *scanner) skip() error {
	switch c := s.peek(); {
	case c == '"':
		_, err := s.str()
		return err
	case c == '-' || (c >= '0' && c <= '9'):
		return s.number()
	case c == '{':
		return s.object(s.skipMember)
	case c == '[':
		return s.array(s.skip)
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	default:
		return s.unexpected(c, "a value")
	}
}

func (s *scanner) skipMember([]byte) error { return s.skip() }

func (s *scanner) literal(want string) error {
	if rest := s.in[s.at:]; !bytes.HasPrefix(rest, []byte(want)) {
		if bytes.HasPrefix([]byte(want), rest) {
			return errTruncated
		}
		return s.fault("no such literal")
	}
	s.at += len(want)
	return nil
}

// digits skips digits and says whether there was one.
func (s *scanner) digits() bool {
	start := s.at
	for s.at < len(s.in) && s.in[s.at]-'0' <= 9 {
		s.at++
	}
	return s.at > start
}

func (s *scanner) number() error {
	if s.in[s.at] == '-' {
		s.at++
	}
	if s.at < len(s.in) && s.in[s.at] == '0' {
		s.at++
	} else if !s.digits() {
		return s.bad("number")
	}
	if s.at < len(s.in) && s.in[s.at] == '.' {
		s.at++
		if !s.digits() {
			return s.bad("number")
		}
	}
	if s.at < len(s.in) && s.in[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.in) && (s.in[s.at] == '+' || s.in[s.at] == '-') {
			s.at++
		}
		if !s.digits() {
			return s.bad("number")
		}
	}
	return nil
}

func (s *scanner) bad(what string) error {
	if s.at >= len(s.in) {
		return errTruncated
	}
	return s.fault("not a %s", what)
}

// class says what a byte means inside a string.
var class = func() (c [256]byte) {
	for i := range c {
		c[i] = odd
	}
	for b := 'a'; b <= 'z'; b++ {
		c[b], c[b-0x20] = harmless, harmless
	}
	for b := '0'; b <= '9'; b++ {
		c[b] = harmless
	}
	c['_'] = harmless
	c['"'], c['\\'] = quote, escape
	for b := range 0x20 {
		c[b] = control
	}
	return c
}()

const (
	harmless = iota // letters, digits, underscore
	odd             // may be part of something private
	quote
	escape
	control // not allowed
)

// shortest is the length, with quotes, from which a string of harmless bytes
// alone could be a credential.
const shortest = 22

// str reads a string and returns it with its quotes.
func (s *scanner) str() ([]byte, error) {
	start := s.at
	i := start + 1
	seen := false
	for {
		for i < len(s.in) && class[s.in[i]] == harmless {
			i++
		}
		if i >= len(s.in) {
			s.at = len(s.in)
			return nil, errTruncated
		}
		switch class[s.in[i]] {
		case quote:
			s.at = i + 1
			raw := s.in[start:s.at]
			if !seen && len(raw) < shortest {
				return raw, nil
			}
			return raw, s.suspect(raw)
		case escape:
			n, err := s.escaped(i)
			if err != nil {
				return nil, err
			}
			i, seen = n, true
		case control:
			s.at = i
			return nil, s.fault("control character in a string")
		default:
			i, seen = i+1, true
		}
	}
}

// escaped returns the end of the escape sequence at i.
func (s *scanner) escaped(i int) (int, error) {
	if i+1 >= len(s.in) {
		return 0, errTruncated
	}
	switch s.in[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
		for k := i + 2; k < i+6; k++ {
			if k >= len(s.in) {
				return 0, errTruncated
			}
			if c := s.in[k] | 0x20; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				s.at = k
				return 0, s.fault("not a hexadecimal digit")
			}
		}
		return i + 6, nil
	default:
		s.at = i
		return 0, s.fault("unknown escape sequence")
	}
}

// suspect looks at a string that has more than harmless bytes.
func (s *scanner) suspect(raw []byte) error {
	if !utf8.Valid(raw) {
		return s.fault("string is not UTF-8")
	}
	if s.text == nil {
		return nil
	}
	return s.text(raw)
}

// unquote returns the text of a string read by str.
func unquote(raw []byte) string {
	var out string
	if json.Unmarshal(raw, &out) != nil {
		return string(raw)
	}
	return out
}
