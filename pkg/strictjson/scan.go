package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// maxDepth limits the nesting of a text.
const maxDepth = 64

// scanner reads one JSON text in a single pass. It checks the whole grammar and UTF-8,
// drops white space, and passes every string that might be private to text. Its callers
// build values from what it reads.
type scanner struct {
	in   []byte
	at   int
	out  []byte // compact text so far
	from int    // in[from:at] is compact and not yet in out
	// text is called with every string or key, in quotes, that is long or has a byte other
	// than a letter, digit or underscore.
	text  func(raw []byte) error
	depth int
	// memory is the number of bytes that may still be allocated for elements of lists and
	// maps. It prevents a text with few bytes per element from becoming a value many times
	// its size.
	memory int
	// gathered has the integers of the list being read.
	gathered []int64
	// strict requires the form of the Go type; see Input.
	strict bool
}

// The kinds of errors.
var (
	ErrTruncated = errors.New("ends in the middle of a JSON value")
	ErrSyntax    = errors.New("not JSON")
)

// end skips white space after the value. Anything else is an error.
func (s *scanner) end() error {
	s.space()
	if s.at != len(s.in) {
		return s.syntax("text after the value")
	}
	return nil
}

// compact returns the text read so far, without white space between tokens.
func (s *scanner) compact() []byte {
	if len(s.out) == 0 {
		return s.in[s.from:s.at]
	}
	return append(s.out, s.in[s.from:s.at]...)
}

func (s *scanner) syntax(format string, args ...any) error {
	return fmt.Errorf("%w: byte %d: %s", ErrSyntax, s.at, fmt.Sprintf(format, args...))
}

// space skips white space, and leaves it out of the compact text.
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
	if s.at < len(s.in) && s.in[s.at] > ' ' {
		return s.in[s.at]
	}
	s.space()
	if s.at == len(s.in) {
		return 0
	}
	return s.in[s.at]
}

// open reads the first byte of an object or list, and reports whether it has any member.
func (s *scanner) open(first, last byte, want string) (bool, error) {
	if c := s.peek(); c != first {
		return false, s.other(c, want)
	}
	s.at++
	if s.depth++; s.depth > maxDepth {
		return false, s.syntax("nested deeper than %d", maxDepth)
	}
	if s.peek() != last {
		return true, nil
	}
	s.at++
	s.depth--
	return false, nil
}

// more reads the byte after a member, and reports whether it is a comma.
func (s *scanner) more(last byte, want string) (bool, error) {
	switch c := s.peek(); c {
	case ',':
		s.at++
		return true, nil
	case last:
		s.at++
		s.depth--
		return false, nil
	default:
		return false, s.unexpected(c, want)
	}
}

// key reads a key and its colon, and returns the key in quotes.
func (s *scanner) key() ([]byte, error) {
	if c := s.peek(); c != '"' {
		return nil, s.unexpected(c, "a key")
	}
	key, err := s.str()
	if err != nil {
		return nil, err
	}
	if c := s.peek(); c != ':' {
		return nil, s.unexpected(c, "a colon")
	}
	s.at++
	return key, nil
}

// object reads an object. It calls member with each key, in quotes; member reads the value.
func (s *scanner) object(member func(key []byte) error) error {
	more, err := s.open('{', '}', "an object")
	for more && err == nil {
		var key []byte
		if key, err = s.key(); err != nil {
			return err
		}
		if err = member(key); err != nil {
			return err
		}
		more, err = s.more('}', "a comma or the end of the object")
	}
	return err
}

// array reads an array. It calls element to read each element.
func (s *scanner) array(element func() error) error {
	more, err := s.open('[', ']', "a list")
	for more && err == nil {
		if err = element(); err != nil {
			return err
		}
		more, err = s.more(']', "a comma or the end of the list")
	}
	return err
}

// ahead returns the text of a member of the next object without moving on. It is empty if
// there is no such member, or if it is not a string.
func (s *scanner) ahead(member string) (text string) {
	look := scanner{in: s.in, at: s.at, depth: s.depth}
	found := errors.New("found")
	// The reader of the object will report its errors.
	_ = look.object(func(key []byte) error {
		if string(key[1:len(key)-1]) != member {
			return look.skip()
		}
		if look.peek() == '"' {
			if raw, err := look.str(); err == nil {
				text = Unquote(raw)
			}
		}
		return found
	})
	return text
}

func (s *scanner) unexpected(c byte, want string) error {
	if c == 0 && s.at == len(s.in) {
		return ErrTruncated
	}
	return s.syntax("%q where %s should be", c, want)
}

// skip reads and drops any value.
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

// skipMember is skip for the value of a member.
func (s *scanner) skipMember([]byte) error { return s.skip() }

func (s *scanner) literal(want string) error {
	if rest := s.in[s.at:]; !bytes.HasPrefix(rest, []byte(want)) {
		if bytes.HasPrefix([]byte(want), rest) {
			return ErrTruncated
		}
		return s.syntax("invalid literal")
	}
	s.at += len(want)
	return nil
}

// digits skips digits and reports whether there were any.
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
		return ErrTruncated
	}
	return s.syntax("not a %s", what)
}

// class classifies the bytes of a string.
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

// shortest is the minimum length, with quotes, at which a string of harmless bytes could be
// a credential.
const shortest = 22

// str reads a string and returns it in quotes.
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
			return nil, ErrTruncated
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
			return nil, s.syntax("control character in a string")
		default:
			i, seen = i+1, true
		}
	}
}

// escaped returns the end of the escape sequence at i.
func (s *scanner) escaped(i int) (int, error) {
	if i+1 >= len(s.in) {
		return 0, ErrTruncated
	}
	switch s.in[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
		for k := i + 2; k < i+6; k++ {
			if k >= len(s.in) {
				return 0, ErrTruncated
			}
			if c := s.in[k] | 0x20; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				s.at = k
				return 0, s.syntax("not a hexadecimal digit")
			}
		}
		return i + 6, nil
	default:
		s.at = i
		return 0, s.syntax("unknown escape sequence")
	}
}

// suspect looks at a string that has more than harmless bytes.
func (s *scanner) suspect(raw []byte) error {
	if !utf8.Valid(raw) {
		return s.syntax("string is not UTF-8")
	}
	if s.text == nil {
		return nil
	}
	return s.text(raw)
}

// Unquote returns the text of a JSON string, which is given in quotes.
func Unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var out string
	if json.Unmarshal(raw, &out) != nil {
		return string(raw)
	}
	return out
}
