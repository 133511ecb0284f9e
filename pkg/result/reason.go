package result

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Code is a code of the closed list of outcome reasons.
type Code string

// The closed list.
const (
	ReasonSemantics     Code = "semantic correctness or routing identity failed"
	ReasonTimeout       Code = "timeout"       // "timeout: case budget of 60 s"
	ReasonSkipped       Code = "skipped"       // "skipped: shard time limit"
	ReasonRankDied      Code = "rank-died"     // "rank-died: rank 1 signal 9"
	ReasonLibrary       Code = "library-error" // "library-error: nccl 5"
	ReasonNoLibrary     Code = "library-missing"
	ReasonNoSymbol      Code = "symbol-missing"
	ReasonDevice        Code = "device-error"
	ReasonMemory        Code = "out-of-memory"
	ReasonRefused       Code = "refused"     // the backend does not support exactly this case
	ReasonEnvironment   Code = "environment" // the machine does not match the case
	ReasonInternal      Code = "internal-error"
	ReasonCheck         Code = "check-failed" // "check-failed: before payload rank 1"
	ReasonNonFinite     Code = "non-finite-error"
	ReasonUnchecked     Code = "check-did-not-run"
	ReasonImplausible   Code = "implausible"     // more data than the limits allow; a time of 0; unchecked bursts too fast
	ReasonUnpublishable Code = "unpublishable"   // the measurement contained something private
	ReasonMemoryForSize Code = "memory-for-size" // a size dropped from the ladder
	ReasonSizeTooSmall  Code = "size-too-small"  // a size that leaves a rank without an element
)

// Codes returns the closed list.
func Codes() []Code {
	return []Code{
		ReasonSemantics, ReasonTimeout, ReasonSkipped, ReasonRankDied, ReasonLibrary, ReasonNoLibrary,
		ReasonNoSymbol, ReasonDevice, ReasonMemory, ReasonRefused, ReasonEnvironment, ReasonInternal,
		ReasonCheck, ReasonNonFinite, ReasonUnchecked, ReasonImplausible, ReasonUnpublishable, ReasonMemoryForSize, ReasonSizeTooSmall,
	}
}

// reasonDetail matches the detail after a code. It has no slash, colon or at sign, so that no path, address
// or URL fits in it.
var reasonDetail = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._,=+()-]{0,119}$`)

// Reason is why a case, a row or a size did not succeed: a code and, with some, a detail of numbers, ranks
// or names from the definitions; never text of a library, a path or a host. Its text form is "code" or
// "code: detail".
type Reason struct {
	Code   Code
	Detail string
}

// With returns the reason with its detail, or without it if the detail may not be published.
func (c Code) With(format string, args ...any) Reason {
	detail := fmt.Sprintf(format, args...)
	if !reasonDetail.MatchString(detail) {
		detail = ""
	}
	return Reason{c, detail}
}

// String formats the reason as documents do.
func (r Reason) String() string {
	if r.Detail == "" {
		return string(r.Code)
	}
	return string(r.Code) + ": " + r.Detail
}

// MarshalText implements encoding.TextMarshaler.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is the inverse of String. Check decides whether the reason may be published.
func (r *Reason) UnmarshalText(text []byte) error {
	code, detail, found := strings.Cut(string(text), ": ")
	if found && detail == "" { // not a result of String
		code += ": "
	}
	*r = Reason{Code(code), detail}
	return nil
}

// Check returns an error unless the reason has the published form.
func (r Reason) Check() error {
	if !slices.Contains(Codes(), r.Code) {
		return fmt.Errorf("reason %q does not begin with a code of the closed list", r)
	}
	if r.Detail != "" && !reasonDetail.MatchString(r.Detail) {
		return fmt.Errorf("reason %q has a detail that is not of the published form", r)
	}
	return nil
}

// Reasons are the reasons of one outcome or check; readers show the first.
type Reasons []Reason

// String formats the reasons on one line.
func (rs Reasons) String() string {
	var texts []string
	for _, r := range rs {
		texts = append(texts, r.String())
	}
	return strings.Join(texts, "; ")
}

// Only reports whether all reasons have one of the codes.
func (rs Reasons) Only(codes ...Code) bool {
	return !slices.ContainsFunc(rs, func(r Reason) bool { return !slices.Contains(codes, r.Code) })
}
