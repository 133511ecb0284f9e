// Package provenance describes a machine, and decides what may be published about it.
// Allow-lists name what is published: host facts, environment variables and library names
// of known forms. As a second line of defence, the Screen checks everything that leaves the
// machine, and refuses what contains private text all the same.
package provenance

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ErrPrivate is wrapped by the errors of a Screen. They name the kind of private text and
// where it was found, never the text itself.
var ErrPrivate = errors.New("holds something private")

// Screen finds private text: addresses, hardware ids, paths, credentials and host names by
// their form, and the names of one machine by their value.
type Screen struct {
	names   []string // lower case
	secrets []string // lower case
}

// ScreenOf returns the screen of a machine. It knows the hostname, with and without its
// domain, and the values in environ ("NAME=value") that name the machine, the hosts of its
// job or its user, or are secrets.
func ScreenOf(hostname string, environ []string) *Screen {
	names, secrets := private(hostname, environ)
	s := NewScreen(names...)
	for _, value := range secrets {
		s.secrets = append(s.secrets, strings.ToLower(value))
	}
	return s
}

// NewScreen returns a screen that also finds names. Names that are too short or too common
// to identify a machine are ignored.
func NewScreen(names ...string) *Screen {
	s := &Screen{}
	for _, n := range names {
		n = strings.ToLower(strings.TrimSpace(n))
		if len(n) >= 4 && !slices.Contains(commonNames, n) && !slices.Contains(s.names, n) {
			s.names = append(s.names, n)
		}
	}
	return s
}

// commonNames are words that every machine has, and values from the closed lists of
// documents. They do not identify a machine, even if its name is one of them.
var commonNames = strings.Fields(`
	localhost local localdomain host root runner user linux ubuntu debian admin
	node nodes compute server worker cluster
	nvidia cuda nccl rccl true false none null

	cxrun devel source case collective attempt sample setup plan point verdict fresh chain runnable success invalid failed unsupported
	measured derived unavailable percentile chained median cross rank token activation only
	normal latency decode prefill dispatch combine roundtrip stage before after post
	pipelined blocking iteration graph place cold warm shifted fresh symmetric
	packed native reference domain deduplicated assignment unweighted grouped send recv
	semantic correctness routing identity timeout skipped died library error missing symbol device memory refused
	environment internal check finite unpublishable size small backend capacity platform
	budget shard time limit signal cancelled store document samples still running`)

// Check returns an error that wraps ErrPrivate if text contains private text.
func (s *Screen) Check(text string) error {
	return s.check(text, func(string) bool { return false })
}

// check is Check, except that names for which public is true do not count.
func (s *Screen) check(text string, public func(string) bool) error {
	if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return nil // 16:39:42.1 would be the PCI address 39:42.1
	}
	var has [256]bool
	for i := range len(text) {
		has[text[i]] = true
	}
	for _, sh := range shapes {
		if has[sh.hint] && sh.find(text) {
			return fmt.Errorf("%w: %s", ErrPrivate, sh.kind)
		}
	}
	if len(s.names)+len(s.secrets) == 0 {
		return nil
	}
	lower := strings.ToLower(text)
	for _, n := range s.secrets {
		if holdsWord(lower, n) {
			return fmt.Errorf("%w: a secret of this machine", ErrPrivate)
		}
	}
	for _, n := range s.names {
		if holdsWord(lower, n) && !public(n) {
			return fmt.Errorf("%w: a name of this machine", ErrPrivate)
		}
	}
	return nil
}

// holdsWord reports whether text contains word without a letter or digit on either side.
func holdsWord(text, word string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		if (start == 0 || !alphanumeric(text[start-1])) && (end == len(text) || !alphanumeric(text[end])) {
			return true
		}
		from = start + 1
	}
}

func alphanumeric(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// publicText is the published form of a name or version that a runtime or library reports.
var publicText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ()@.,:+_/-]{0,95}$`)

// Public returns text that a runtime or library reported about itself, such as the name of
// a device or a version, or Withheld if it does not have the published form. Empty text
// stays empty.
func (s *Screen) Public(text string) string {
	if text == "" || (publicText.MatchString(text) && s.Check(text) == nil) {
		return text
	}
	return Withheld
}

var (
	soName  = regexp.MustCompile(`^lib[A-Za-z0-9_+-]+(\.[a-z0-9]+)*\.so(\.[0-9]+)*$`)
	buildID = regexp.MustCompile(`^[0-9a-f]{8,64}$`)
)

// SOName returns the name of a library file without its directory, or "" if it does not have
// the published form.
func (s *Screen) SOName(file string) string {
	file = file[strings.LastIndexByte(file, '/')+1:]
	if !soName.MatchString(file) || s.Check(file) != nil {
		return ""
	}
	return file
}

// BuildID returns id if it has the form of a linker's build id, else "".
func (s *Screen) BuildID(id string) string {
	if !buildID.MatchString(id) {
		return ""
	}
	return id
}
