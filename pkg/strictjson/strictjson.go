// Package strictjson reads JSON of unknown origin into Go types. Package json checks the grammar,
// UTF-8, duplicate members and types; this package limits depth and memory, shows strings to a
// screen, and holds a text to the JSON Schema of a type.
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The kinds of errors. ErrForm is of a text that is JSON but not of the type that is read.
var (
	ErrTruncated = errors.New("ends in the middle of a JSON value")
	ErrSyntax    = errors.New("not JSON")
	ErrForm      = errors.New("does not match the schema")
)

// Limits of a text. A list or object of a few bytes takes much more memory once it is decoded.
const (
	maxDepth          = 64
	leastContainers   = 4096
	bytesPerContainer = 16
)

// Unmarshal reads text, which Screen has accepted, into the value that v points to. Unknown members
// are skipped, and null is the zero value. The error wraps ErrTruncated, ErrSyntax or ErrForm.
func Unmarshal(text []byte, v any) error { return explain(json.Unmarshal(text, v)) }

// Screen limits depth and memory of a text, and shows every string and key to the screen of s, if it is not nil. It
// returns the text without white space around tokens. It does not find every syntax error; Unmarshal does. The error
// is the one that the screen returned, or wraps ErrTruncated, ErrSyntax or ErrForm.
func Screen(text []byte, s *Strings) ([]byte, error) {
	text = bytes.TrimSpace(text)
	spaces, err := scan(text, s)
	if err != nil || !spaces {
		return text, err
	}
	compact := jsontext.Value(bytes.Clone(text))
	err = explain(compact.Compact())
	return compact, err
}

// scan holds text to the limits and shows its strings to the screen of s, if s is not nil. It reports
// whether there is white space between tokens.
func scan(text []byte, s *Strings) (spaces bool, err error) {
	depth, containers := 0, maxContainers(text)
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			end := stringEnd(text, i)
			if end < 0 {
				return false, nil // Unmarshal reports that it is truncated
			}
			if s != nil {
				if _, err := s.read(text[i:end]); err != nil {
					return false, err
				}
			}
			i = end - 1
		case ' ', '\t', '\r', '\n':
			spaces = true
		case '{', '[':
			if depth, containers = depth+1, containers-1; depth > maxDepth || containers < 0 {
				return false, exceeded(int64(i), depth)
			}
		case '}', ']':
			depth--
		}
	}
	return spaces, nil
}

// maxContainers returns how many lists and objects text may have.
func maxContainers(text []byte) int { return leastContainers + len(text)/bytesPerContainer }

// exceeded returns the error of a text that exceeds a limit at a byte, in a container at a depth.
func exceeded(at int64, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: byte %d: nested deeper than %d", ErrSyntax, at, maxDepth)
	}
	return &FormError{What: fmt.Sprintf("more than one list or object in %d bytes", bytesPerContainer)}
}

// stringEnd returns the end of the string that begins at start, −1 if it does not end.
func stringEnd(text []byte, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return -1
}

// Strings reads strings, and shows them to a screen. Most strings of a run are repeated, so it keeps those that it
// has read, up to a limit. It is for one goroutine.
type Strings struct {
	screen func(text string) error
	known  map[string]string // texts by the strings, in quotes
}

// Limits of the strings that are kept.
const (
	maxKnown      = 4096
	maxKnownBytes = 64
)

// NewStrings returns an empty Strings. An error of screen, which may be nil, refuses a string.
func NewStrings(screen func(text string) error) *Strings {
	return &Strings{screen: screen, known: map[string]string{}}
}

// read returns the text of a string, which is given in quotes. It shows it to the screen if it is long or has a byte
// other than a letter, digit or underscore.
func (s *Strings) read(raw []byte) (string, error) {
	if text, ok := s.known[string(raw)]; ok {
		return text, nil
	}
	text := Unquote(raw)
	if s.screen != nil && !harmless(raw) {
		if err := s.screen(text); err != nil {
			return "", err
		}
	}
	if len(raw) <= maxKnownBytes {
		if len(s.known) == maxKnown { // full of strings that only one text has
			clear(s.known)
		}
		s.known[string(raw)] = text
	}
	return text, nil
}

// shortest is the minimum length, with quotes, at which a string of plain bytes could be a credential.
const shortest = 22

// harmless reports whether a string, in quotes, is too short and plain to be private.
func harmless(raw []byte) bool {
	if len(raw) >= shortest {
		return false
	}
	for _, c := range raw[1:max(1, len(raw)-1)] {
		if !plainBytes[c] {
			return false
		}
	}
	return true
}

var plainBytes = func() (plain [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") {
		plain[c] = true
	}
	return plain
}()

// Unquote returns the text of a JSON string, which is given in quotes.
func Unquote(raw []byte) string {
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return string(raw)
	}
	return string(text)
}

// FormError names the place where a text does not have the required form.
type FormError struct {
	Path string // a.b[3].c
	What string
}

func (e *FormError) Error() string {
	if e.Path == "" {
		return e.What
	}
	return e.Path + ": " + e.What
}

// Unwrap returns ErrForm.
func (e *FormError) Unwrap() error { return ErrForm }

func misformed(at jsontext.Pointer, format string, args ...any) error {
	return &FormError{Path(at), fmt.Sprintf(format, args...)}
}

// Path formats a place as a.b[3].c.
func Path(at jsontext.Pointer) string {
	var path strings.Builder
	for token := range at.Tokens() {
		if _, err := strconv.Atoi(token); err == nil {
			token = "[" + token + "]"
		} else if path.Len() > 0 {
			token = "." + token
		}
		path.WriteString(token)
	}
	return path.String()
}

// explain returns an error of packages json and jsontext in the words of this package.
func explain(err error) error {
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		switch {
		case errors.Is(e, io.ErrUnexpectedEOF):
			return ErrTruncated
		case errors.Is(e, jsontext.ErrDuplicateName):
			return misformed(e.JSONPointer.Parent(), "duplicate member %q", e.JSONPointer.LastToken())
		}
		return fmt.Errorf("%w: byte %d: %w", ErrSyntax, e.ByteOffset, e.Err)
	}
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		return misformed(e.JSONPointer, "%s", unfit(e))
	}
	if errors.Is(err, io.EOF) {
		return ErrTruncated
	}
	return err
}

// unfit returns why a value does not have the type that it is read into.
func unfit(e *json.SemanticError) string {
	switch {
	case e.Err != nil && !errors.Is(e.Err, strconv.ErrSyntax) && !errors.Is(e.Err, strconv.ErrRange):
		return e.Err.Error()
	case e.GoType == nil:
		return e.Error()
	case e.JSONKind == jsontext.KindNumber:
		return wanted(e.GoType.Kind(), e.JSONValue)
	default:
		return wanted(e.GoType.Kind(), nil)
	}
}

// wanted returns what a value must be to be read into a type. number is its text, if it is a number.
func wanted(kind reflect.Kind, number []byte) string {
	value := ""
	if number != nil {
		value = ", not " + quotable(number)
	}
	switch kind {
	case reflect.Bool:
		return "want true or false"
	case reflect.String:
		return "want a string"
	case reflect.Int, reflect.Int64:
		return "want an integer" + value
	case reflect.Uint64:
		return "want an integer from 0" + value
	case reflect.Float64:
		return "want a number" + value
	case reflect.Slice:
		return "want a list"
	default:
		return "want an object"
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
