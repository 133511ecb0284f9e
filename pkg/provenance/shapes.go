package provenance

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

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
	return slices.ContainsFunc(account.FindAllString(s, -1), func(m string) bool { return !strings.HasSuffix(m, "@sha256") })
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
