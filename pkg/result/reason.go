package result

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Reason is a code of the closed list of outcome reasons. A published reason is
// a code, optionally followed by ": " and numbers, ranks or names from the
// definitions; never by text of a library, a path or a host.
type Reason string

// The closed list.
const (
	ReasonSemantics     Reason = "semantic correctness or routing identity failed"
	ReasonTimeout       Reason = "timeout"       // "timeout: case budget of 60 s"
	ReasonSkipped       Reason = "skipped"       // "skipped: shard time limit"
	ReasonRankDied      Reason = "rank-died"     // "rank-died: rank 1 signal 9"
	ReasonLibrary       Reason = "library-error" // "library-error: nccl 5"
	ReasonNoLibrary     Reason = "library-missing"
	ReasonNoSymbol      Reason = "symbol-missing"
	ReasonDevice        Reason = "device-error"
	ReasonMemory        Reason = "out-of-memory"
	ReasonRefused       Reason = "refused"     // the backend cannot do exactly this case
	ReasonEnvironment   Reason = "environment" // the machine is not what the case says
	ReasonInternal      Reason = "internal-error"
	ReasonCheck         Reason = "check-failed" // "check-failed: before payload rank 1"
	ReasonNonFinite     Reason = "non-finite-error"
	ReasonUnchecked     Reason = "check-did-not-run"
	ReasonImplausible   Reason = "implausible"     // more had to move than the limits allow; a time of 0
	ReasonUnpublishable Reason = "unpublishable"   // what was measured held something private
	ReasonMemoryForSize Reason = "memory-for-size" // a size dropped from the ladder
	ReasonSizeTooSmall  Reason = "size-too-small"  // a size that leaves a rank without an element
)

// Reasons returns the closed list.
func Reasons() []Reason {
	return []Reason{
		ReasonSemantics, ReasonTimeout, ReasonSkipped, ReasonRankDied, ReasonLibrary, ReasonNoLibrary,
		ReasonNoSymbol, ReasonDevice, ReasonMemory, ReasonRefused, ReasonEnvironment, ReasonInternal,
		ReasonCheck, ReasonNonFinite, ReasonUnchecked, ReasonImplausible, ReasonUnpublishable, ReasonMemoryForSize, ReasonSizeTooSmall,
	}
}

// reasonDetail is what may follow a code. It has no slash, colon or at sign,
// so that no path, address or URL fits in it.
var reasonDetail = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._,=+()-]{0,119}$`)

// With returns the reason with its detail, or the bare code where the detail
// is not of the published form: private text never gets past here.
func (r Reason) With(format string, args ...any) string {
	detail := fmt.Sprintf(format, args...)
	if !reasonDetail.MatchString(detail) {
		return string(r)
	}
	return string(r) + ": " + detail
}

// CheckReason returns an error unless s is a reason of the published form.
func CheckReason(s string) error {
	code, detail, found := strings.Cut(s, ": ")
	if !slices.Contains(Reasons(), Reason(code)) {
		return fmt.Errorf("reason %q begins with no code of the closed list", s)
	}
	if found && !reasonDetail.MatchString(detail) {
		return fmt.Errorf("reason %q has a detail that is not of the published form", s)
	}
	return nil
}
