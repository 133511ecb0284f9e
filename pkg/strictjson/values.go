package strictjson

import (
	"bytes"
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

func readBool(s *scanner, p unsafe.Pointer) error {
	switch c := s.peek(); c {
	case 't':
		*(*bool)(p) = true
		return s.literal("true")
	case 'f':
		return s.literal("false")
	default:
		return s.other(c, "true or false")
	}
}

// textReader reads strings into a type that implements encoding.TextUnmarshaler.
func textReader(t reflect.Type) reader {
	return func(s *scanner, p unsafe.Pointer) error {
		if c := s.peek(); c != '"' {
			return s.other(c, "a string")
		}
		raw, err := s.str()
		if err != nil {
			return err
		}
		if err := s.allocate(uintptr(8 * len(raw))); err != nil {
			return err
		}
		if err := reflect.NewAt(t, p).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(Unquote(raw))); err != nil {
			return misformed("%v", err)
		}
		return nil
	}
}

// stringReader reads strings. In strict mode they must be in words, unless words is empty.
func stringReader(words []string) reader {
	return func(s *scanner, p unsafe.Pointer) error {
		if c := s.peek(); c != '"' {
			return s.other(c, "a string")
		}
		raw, err := s.str()
		if err != nil {
			return err
		}
		inner := raw[1 : len(raw)-1]
		for _, w := range words {
			if string(inner) == w {
				*(*string)(p) = w
				return nil
			}
		}
		if text := Unquote(raw); len(words) == 0 || !s.strict || slices.Contains(words, text) {
			*(*string)(p) = text
			return nil
		}
		return misformed("%s is not one of %s", quotable(raw), strings.Join(words, ", "))
	}
}

// longest is the maximum length of a value that a message quotes.
const longest = 64

// quotable returns raw, shortened for a message.
func quotable(raw []byte) string {
	if len(raw) > longest {
		return strings.ToValidUTF8(string(raw[:longest]), "") + "…"
	}
	return string(raw)
}

// intReader reads integers. In strict mode they must be in list, unless list is empty.
func intReader(list []any) reader {
	var allowed []int64
	for _, v := range list {
		allowed = append(allowed, int64(v.(int)))
	}
	return func(s *scanner, p unsafe.Pointer) error {
		n, err := s.integer()
		if err != nil {
			return err
		}
		if s.strict && len(allowed) > 0 && !slices.Contains(allowed, n) {
			return misformed("%d is not one of %v", n, allowed)
		}
		*(*int64)(p) = n
		return nil
	}
}

// integer reads an integer.
func (s *scanner) integer() (int64, error) {
	if n, end := s.decimal(); end-s.at == 1 || end-s.at <= 18 && end > s.at && s.in[s.at] != '0' {
		if end == len(s.in) || s.in[end] != '.' && s.in[end]|0x20 != 'e' {
			s.at = end
			return int64(n), nil
		}
	}
	text, err := s.figure("an integer")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(unsafe.String(&text[0], len(text)), 10, 64)
	if err != nil {
		return 0, misformed("want an integer, not %s", quotable(text))
	}
	return n, nil
}

// decimal returns the number that the digits before end represent, without moving on. With
// more than 19 digits the number is meaningless.
func (s *scanner) decimal() (n uint64, end int) {
	for end = s.at; end < len(s.in) && s.in[end]-'0' <= 9; end++ {
		n = 10*n + uint64(s.in[end]-'0')
	}
	return n, end
}

// ints reads lists of integers. They are gathered first and allocated once.
func ints(s *scanner, p unsafe.Pointer) error {
	s.gathered = s.gathered[:0]
	more, err := s.open('[', ']', "a list")
	for more && err == nil {
		s.space()
		var n int64
		if n, err = s.integer(); err != nil {
			return within(err, fmt.Sprintf("[%d]", len(s.gathered)))
		}
		s.gathered = append(s.gathered, n)
		more, err = s.more(']', "a comma or the end of the list")
	}
	*(*[]int64)(p) = append(make([]int64, 0, len(s.gathered)), s.gathered...)
	return err
}

func readUint(s *scanner, p unsafe.Pointer) error {
	text, err := s.figure("an integer")
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(unsafe.String(&text[0], len(text)), 10, 64)
	if err != nil {
		return misformed("want an integer from 0, not %s", quotable(text))
	}
	*(*uint64)(p) = n
	return nil
}

// tens are the powers of ten that float64 represents exactly.
var tens = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

func readFloat(s *scanner, p unsafe.Pointer) error {
	text, err := s.figure("a number")
	if err != nil {
		return err
	}
	// With few digits and no exponent, the result is the quotient of two exact numbers,
	// which is rounded once.
	if len(text) <= 17 {
		digits, frac := uint64(0), 0
		for i, c := range text {
			switch {
			case c-'0' <= 9:
				digits = 10*digits + uint64(c-'0')
			case c == '.':
				frac = len(text) - 1 - i
			default: // a sign or an exponent
				return s.parseFloat(text, p)
			}
		}
		if digits <= 1<<53 {
			*(*float64)(p) = float64(digits) / tens[frac]
			return nil
		}
	}
	return s.parseFloat(text, p)
}

func (s *scanner) parseFloat(text []byte, p unsafe.Pointer) error {
	v, err := strconv.ParseFloat(unsafe.String(&text[0], len(text)), 64)
	if err != nil || math.IsInf(v, 0) {
		return misformed("number %s is too large", quotable(text))
	}
	*(*float64)(p) = v
	return nil
}

// figure reads a number and returns its text.
func (s *scanner) figure(want string) ([]byte, error) {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		return nil, s.other(c, want)
	}
	start := s.at
	err := s.number()
	return s.in[start:s.at], err
}

// other returns the error for a value that begins with c in place of the wanted one. It
// wraps ErrForm if c begins a value.
func (s *scanner) other(c byte, want string) error {
	if bytes.IndexByte([]byte(`{["tfn-0123456789`), c) < 0 {
		return s.unexpected(c, want)
	}
	if err := s.skip(); err != nil {
		return err
	}
	return misformed("want %s", want)
}

// allocate subtracts n bytes from what may still be allocated for the text.
func (s *scanner) allocate(n uintptr) error {
	if s.memory -= int(n); s.memory < 0 {
		return misformed("elements take far more memory than text")
	}
	return nil
}
