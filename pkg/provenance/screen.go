// Package provenance says what a machine is and what of that may be published.
// What is published is named in allow-lists: host facts, environment variables
// and library names of known forms. The Screen is the net under them: it looks
// at the bytes of everything that leaves the machine and keeps back what holds
// a private thing all the same.
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

// ErrPrivate is wrapped by the errors of a Screen. They name the kind of what
// was found and where, never the thing itself.
var ErrPrivate = errors.New("holds something private")

// Screen finds private things in text: addresses, hardware ids, paths,
// credentials and host names by their shape, and the names of one machine by
// what they are.
type Screen struct {
	names   []string // lower case
	secrets []string // lower case
}

// ScreenOf returns the screen of a machine: it knows the hostname, whole and without
// its domain, and what in environ ("NAME=value") names the machine, the hosts of its
// job or its user, or is a secret.
func ScreenOf(hostname string, environ []string) *Screen {
	names, secrets := private(hostname, environ)
	s := NewScreen(names...)
	for _, value := range secrets {
		s.secrets = append(s.secrets, strings.ToLower(value))
	}
	return s
}

// NewScreen returns a screen that also knows names.
// Names that are too short or too common to mean one machine are left out.
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

// commonNames are words of every machine and of the values that documents take
// from closed lists; they say nothing of one machine even where it is named so.
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

// brought are the objects of documents whose keys are no words of a schema, but
// came with a machine, its environment or a measurement.
var brought = []string{"env", "environment", "histograms", "host", "throttle_counters", "undriven"}

// shape is one form of private text. hint is a byte without which the form
// cannot be.
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

// Check returns an error that wraps ErrPrivate where text holds something
// private.
func (s *Screen) Check(text string) error {
	return s.check(text, func(string) bool { return false })
}

// check is Check without the names for which public is true.
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

// own are the places of documents and descriptions where text is of our own
// vocabulary: values of closed lists, numbers, names from the definitions. A machine
// may well be called like one of them. Text of a place that is not listed may come
// from the machine, its libraries or its environment.
var own = regexp.MustCompile(`^(record_type|generated_at|comparison_key|digest|program|backends|identity|workload|measurement|devices|` +
	`implementation\.(name|maturity|kernel_generation|combine_reduction|fp8_consume)|runtime\.vendor|` +
	`topology\.(placement|scope|transport|topology_class|scale_(up|out)_transport)|` +
	`provenance\.(image|source_sha|generator|host\.arch)|host\.arch|outcome\.status|` +
	// of a record among the samples
	`kind|data\.(began|mode|modes|placement|rungs|path|checked_by|component|combine|combine_reduction|dispatch_dtype|fp8_consume|kernel_generation|receive|digest|when))($|[.[])`)

// reasons are the places of text that begins with a code of a closed list; what
// follows ": " may be somebody else's.
var reasons = regexp.MustCompile(`^outcome\.reasons\[`)

// Document checks every string and key of a JSON document for private shapes and
// secrets, and for names of this machine where text may be somebody else's. A name
// that is also a word of the planned case (identity.case) is public already and does
// not count, nor does one in a key that the schema gives.
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

// anything is public at a place of our own vocabulary, shapes and secrets apart.
func anything(string) bool { return true }

// holdsWord reports whether word stands in text with no letter or digit at
// either side.
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

// hasIPv6 looks for a word that parses as an IPv6 address.
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

// hasAccount looks for user@host; the digest of an image is none.
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
	// domains end the names of hosts.
	domains = []string{
		"internal", "local", "localdomain", "cluster", "lan", "corp", "intra", "private", "home", "arpa", "svc",
		"com", "net", "org", "io", "ai", "cloud", "edu", "gov", "dev", "de", "uk", "cn", "jp",
	}
	// registries are public, and stand in the names of images.
	registries = []string{"nvcr.io", "docker.io", "ghcr.io", "quay.io", "registry.k8s.io"}
)

// hasHostName looks for a dotted name that ends like that of a host.
func hasHostName(s string) bool {
	for _, m := range dotted.FindAllString(s, -1) {
		m = strings.ToLower(m)
		if slices.Contains(domains, m[strings.LastIndexByte(m, '.')+1:]) && !slices.Contains(registries, m) {
			return true
		}
	}
	return false
}

// publicText is the form of a name or version that a runtime or library gives
// itself.
var publicText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ()@.,:+_/-]{0,95}$`)

// Public returns text that a runtime or library said of itself, such as a
// device's name or a version, or Withheld where it is not of the published
// form. Empty text stays empty.
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

// SOName returns the name of a library file without its directory, or nothing
// where it is not of the published form.
func (s *Screen) SOName(file string) string {
	file = file[strings.LastIndexByte(file, '/')+1:]
	if !soName.MatchString(file) || s.Check(file) != nil {
		return ""
	}
	return file
}

// BuildID returns a linker's build id, or nothing where it is none.
func (s *Screen) BuildID(id string) string {
	if !buildID.MatchString(id) {
		return ""
	}
	return id
}
