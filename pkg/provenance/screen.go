// Package provenance describes a machine, and decides what may be published about it.
// Allow-lists name what is published: host facts, environment variables and library names
// of known forms. As a second line of defence, the Screen checks everything that leaves the
// machine, and refuses what contains private text all the same.
package provenance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
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
// documents. They do not identify a machine, even one that is named so.
var commonNames = strings.Fields(`
	localhost local localdomain host root runner user linux ubuntu debian admin
	node nodes compute server worker cluster
	nvidia cuda nccl rccl true false none null

	cxrun devel source case collective attempt sample setup plan point verdict fresh chain runnable success invalid failed unsupported
	measured derived unavailable percentile chained median cross rank token activation only
	normal latency decode prefill dispatch combine roundtrip stage before after post
	pipelined blocking iteration graph place cold warm shifted symmetric
	packed native reference domain deduplicated assignment unweighted grouped send recv
	semantic correctness routing identity timeout skipped died library error missing symbol device memory refused
	environment internal check finite unpublishable size small backend capacity platform
	budget shard time limit signal cancelled store document samples still running`)

// brought are the objects of documents whose keys are not words of the schema but come from
// a machine, its environment or a measurement.
var brought = []string{"env", "environment", "histograms", "host", "throttle_counters", "undriven"}

// shape is one form of private text. hint is a byte that every text of this form contains.
type shape struct {
	kind string
	hint byte
	find func(string) bool
}

func matches(expr string) func(string) bool { return regexp.MustCompile(expr).MatchString }

const octet = `(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])`

var shapes = []shape{
	{"an IPv4 address", '.', matches(`(^|[^0-9.])(` + octet + `\.){3}` + octet + `($|[^0-9.]|\.($|[^0-9]))`)},
	{"an IPv6 address", ':', hasIPv6},
	{"a MAC address", ':', matches(`(?i)(^|[^0-9a-f:])([0-9a-f]{2}:){5,}[0-9a-f]{2}($|[^0-9a-f:])`)},
	{"a MAC address", '-', matches(`(?i)(^|[^0-9a-z-])([0-9a-f]{2}-){5,}[0-9a-f]{2}($|[^0-9a-z-])`)},
	{"a fabric GUID", ':', matches(`(?i)(^|[^0-9a-f:])([0-9a-f]{4}:){3,}[0-9a-f]{4}($|[^0-9a-f:])`)},
	{"a PCI address", ':', matches(`(?i)(^|[^0-9a-f])([0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]($|[^0-9])`)},
	{"a UUID", '-', matches(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)},
	{"a path", '/', matches(`(^|[^A-Za-z0-9._/<-])/+[A-Za-z0-9._~-]`)},
	{"a path", '/', matches(`(^|[^A-Za-z0-9])(~[A-Za-z0-9._-]*|\.\.?)/`)},
	{"a path", '\\', matches(`(?i)(^|[^a-z])[a-z]:\\|\\\\[a-z0-9]`)},
	{"a user at a host", '@', hasAccount},
	{"a host name", '.', hasHostName},
	{"a credential", '_', matches(`(?i)(^|[^a-z0-9])(gh[pousr]_[a-z0-9]{16,}|github_pat_[a-z0-9_]{16,}|hf_[a-z0-9]{16,})`)},
	{"a credential", '-', matches(`(^|[^A-Za-z0-9])(xox[a-z]-|nvapi-|sk-|glpat-)[A-Za-z0-9_-]{16,}|-----BEGIN `)},
	{"a credential", 'A', matches(`(^|[^A-Za-z0-9])A(KIA|SIA)[0-9A-Z]{16}`)},
	{"a credential", 'J', matches(`(^|[^A-Za-z0-9])eyJ[A-Za-z0-9_-]{10,}`)},
	{"a credential", ' ', matches(`(?i)(bearer|basic) [a-z0-9+/=._-]{12,}`)},
	{"a credential", '=', matches(`(?i)(token|secret|password|passwd|api_?key)=`)},
}

// Check returns an error that wraps ErrPrivate if text contains private text.
func (s *Screen) Check(text string) error {
	return s.check(text, func(string) bool { return false })
}

// check is Check, except that names for which public is true do not count.
func (s *Screen) check(text string, public func(string) bool) error {
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

// own matches the places of documents and descriptions whose text is of our own vocabulary:
// values of closed lists, numbers, names from the definitions. A machine may well be named
// like one of these. Text in any other place may come from the machine, its libraries or
// its environment.
var own = regexp.MustCompile(`^(record_type|generated_at|comparison_key|digest|program|backends|identity|workload|measurement|devices|` +
	`implementation\.(name|maturity|kernel_generation|combine_reduction|fp8_consume)|runtime\.vendor|` +
	`topology\.(placement|scope|transport|topology_class|scale_(up|out)_transport)|` +
	`provenance\.(image|source_sha|generator|host\.arch)|host\.arch|outcome\.status|` +
	// of a record among the samples
	`kind|data\.(began|mode|modes|placement|rungs|path|checked_by|component|combine|combine_reduction|dispatch_dtype|fp8_consume|kernel_generation|receive|digest|when))($|[.[])`)

// reasons matches the places of text that begins with a code of a closed list. What follows
// ": " may come from elsewhere.
var reasons = regexp.MustCompile(`^outcome\.reasons\[`)

// Document checks every string and key of a JSON document for private forms and secrets,
// and checks for names of this machine wherever text may come from elsewhere. A name does
// not count if it is also a word of the planned case (identity.case), which is public
// already, or in a key that the schema defines.
func (s *Screen) Document(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	planned := ""
	if doc, ok := v.(map[string]any); ok {
		if id, ok := doc["identity"].(map[string]any); ok {
			if c, err := json.Marshal(id["case"]); err == nil {
				planned = strings.ToLower(string(c))
			}
		}
	}
	return s.walk(v, "", func(name string) bool { return holdsWord(planned, name) })
}

func (s *Screen) walk(v any, at string, public func(string) bool) error {
	switch x := v.(type) {
	case string:
		place := strings.TrimPrefix(at, ".")
		switch {
		case own.MatchString(place):
			public = anything
		case reasons.MatchString(place):
			detail := ""
			if _, after, found := strings.Cut(x, ": "); found {
				detail = after
			}
			if err := s.check(detail, public); err != nil {
				return fmt.Errorf("%s: %w", place, err)
			}
			public = anything // of the code
		}
		if err := s.check(x, public); err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
	case []any:
		for i, e := range x {
			if err := s.walk(e, fmt.Sprintf("%s[%d]", at, i), public); err != nil {
				return err
			}
		}
	case map[string]any:
		publicKey := public
		if !slices.Contains(brought, at[strings.LastIndexByte(at, '.')+1:]) {
			publicKey = anything
		}
		for k, e := range x {
			if err := s.check(k, publicKey); err != nil {
				return fmt.Errorf("a key of %s: %w", strings.TrimPrefix(at, "."), err)
			}
			if err := s.walk(e, at+"."+k, public); err != nil {
				return err
			}
		}
	}
	return nil
}

// anything accepts every name. It is used where text is of our own vocabulary; forms and
// secrets count even there.
func anything(string) bool { return true }

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

// hasIPv6 reports whether a word of s parses as an IPv6 address.
func hasIPv6(s string) bool {
	for _, w := range strings.FieldsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("0123456789abcdefABCDEF:.", r)
	}) {
		w = strings.TrimRight(w, ".")
		if strings.Count(w, ":") < 2 {
			continue
		}
		if a, err := netip.ParseAddr(w); err == nil && a.Is6() {
			return true
		}
	}
	return false
}

var account = regexp.MustCompile(`[A-Za-z0-9._-]+@[A-Za-z0-9._-]+`)

// hasAccount reports whether s contains user@host. The digest of an image does not count.
func hasAccount(s string) bool {
	for _, m := range account.FindAllString(s, -1) {
		if !strings.HasSuffix(m, "@sha256") {
			return true
		}
	}
	return false
}

var (
	dotted = regexp.MustCompile(`(?i)[a-z0-9-]+(\.[a-z0-9-]+)+`)
	// domains are the endings of host names.
	domains = []string{
		"internal", "local", "localdomain", "cluster", "lan", "corp", "intra", "private", "home", "arpa", "svc",
		"com", "net", "org", "io", "ai", "cloud", "edu", "gov", "dev", "de", "uk", "cn", "jp",
	}
	// registries are public hosts, which occur in the names of images.
	registries = []string{"nvcr.io", "docker.io", "ghcr.io", "quay.io", "registry.k8s.io"}
)

// hasHostName reports whether s contains a dotted name with the ending of a host name.
func hasHostName(s string) bool {
	for _, m := range dotted.FindAllString(s, -1) {
		m = strings.ToLower(m)
		if slices.Contains(domains, m[strings.LastIndexByte(m, '.')+1:]) && !slices.Contains(registries, m) {
			return true
		}
	}
	return false
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

// SOName returns the name of a library file without its directory, or nothing if it does
// not have the published form.
func (s *Screen) SOName(file string) string {
	file = file[strings.LastIndexByte(file, '/')+1:]
	if !soName.MatchString(file) || s.Check(file) != nil {
		return ""
	}
	return file
}

// BuildID returns a linker's build id, or nothing if id is not one.
func (s *Screen) BuildID(id string) string {
	if !buildID.MatchString(id) {
		return ""
	}
	return id
}
