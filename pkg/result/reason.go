package result

// Reason is a code of the closed list of outcome reasons. A published reason is
// a code, optionally followed by ": " and numbers, ranks or names from the
// definitions; never by text of a library, a path or a host.
type Reason string

// The closed list.
const (
	ReasonSemantics      Reason = "semantic correctness or routing identity failed"
	ReasonTimeout        Reason = "timeout"       // "timeout: case budget of 60 s"
	ReasonSkipped        Reason = "skipped"       // "skipped: shard time limit"
	ReasonRankDied       Reason = "rank-died"     // "rank-died: rank 1 signal 9"
	ReasonLibrary        Reason = "library-error" // "library-error: nccl 5"
	ReasonNoLibrary      Reason = "library-missing"
	ReasonNoSymbol       Reason = "symbol-missing"
	ReasonDevice         Reason = "device-error"
	ReasonMemory         Reason = "out-of-memory"
	ReasonRefused        Reason = "refused"     // the backend cannot do exactly this case
	ReasonEnvironment    Reason = "environment" // the machine is not what the case says
	ReasonInternal       Reason = "internal-error"
	ReasonNonFinite      Reason = "non-finite-error"
	ReasonUnchecked      Reason = "check-did-not-run"
	ReasonMemoryForSize  Reason = "memory-for-size" // a size dropped from the ladder
	ReasonTokenCapacity  Reason = "backend-token-capacity"
	ReasonPlatformNoCell Reason = "backend-platform-unsupported"
)
