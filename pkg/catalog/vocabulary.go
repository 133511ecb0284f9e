package catalog

// vocabularies are the closed lists that definitions choose from, by the name
// that `in` tags use. Their order is the order of plans and tables.
func vocabularies() map[string][]string {
	return map[string][]string{
		"vendor":       {"nvidia", "amd", "host"},
		"cpu":          {"amd64", "arm64"},
		"transport":    {"nvlink", "mnnvl", "xgmi", "pcie", "shm"},
		"scope":        {ScopeUp, ScopeOut},
		"operator key": OperatorKeys(),
		"launcher":     {"bare", "slurm"},
		"container":    {"none", "pyxis", "docker"},
		"maturity":     {"production", "candidate", "reference"},
		"mode":         EPModes(),
		"phase":        Phases(),
		"precision":    Precisions(),
		"contract":     Contracts(),
		"op":           Ops(),
		"dtype":        DTypes(),
		"redop":        RedOps(),
		"placement":    {OutOfPlace, InPlace},
		"timing mode":  {"pipelined", "blocking", "per_iteration", "graph"},
		"buffers":      {"cold", "warm", "shifted"},
		"registration": {"none", "local", "symmetric"},
	}
}

// EPModes lists the modes of EP backends.
func EPModes() []string { return []string{ModeNormal, ModeLowLatency} }

// Phases lists the phases of EP cases.
func Phases() []string { return []string{PhaseDecode, PhasePrefill} }

// Precisions lists the dispatch precisions of EP cases.
func Precisions() []string { return []string{"bf16", "fp8"} }

// Scopes of a group of ranks: inside one scale-up domain, or over several.
const (
	ScopeUp  = "scale-up"
	ScopeOut = "scale-out"
)

// Contracts lists the timing contracts of EP cases: what the clock covers.
func Contracts() []string { return []string{ContractLayout, ContractCachedLayout} }

// Timing contracts of EP cases.
const (
	// ContractLayout: dispatch covers layout and communication, every call.
	ContractLayout = "layout-and-dispatch-v1"
	// ContractCachedLayout: dispatch with the layout of an earlier one, no exchange of counts.
	ContractCachedLayout = "cached-layout"
)

// Names that plans treat specially.
const (
	ModeNormal     = "normal"
	ModeLowLatency = "low-latency"
	PhaseDecode    = "decode"
	PhasePrefill   = "prefill"
	OutOfPlace     = "out_of_place"
	InPlace        = "in_place"
)

// Ops lists the collective operations, with nccl-tests' names.
func Ops() []string {
	return []string{"all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv", "reduce", "gather", "scatter", "alltoallv", "p2p", "p2p_bidir", "hypercube"}
}

// Reduces reports whether op takes a reduction operator.
func Reduces(op string) bool {
	return op == "all_reduce" || op == "reduce_scatter" || op == "reduce"
}

// HasInPlace reports whether op has an in-place form.
func HasInPlace(op string) bool {
	return op != "alltoall" && op != "sendrecv" && op != "alltoallv" && !Pairwise(op)
}

// Pairwise reports whether op is between two ranks, while the others are idle.
func Pairwise(op string) bool { return op == "p2p" || op == "p2p_bidir" }

// Pairs is how many pairs of ranks a pairwise op is measured on, else 0.
func Pairs(op string, world int) int {
	switch op {
	case "p2p":
		return world * (world - 1)
	case "p2p_bidir":
		return world * (world - 1) / 2
	default:
		return 0
	}
}

// TakesTraffic reports whether a file says what op moves, in place of sizes.
func TakesTraffic(op string) bool { return op == "alltoallv" }

// DTypes lists the element types of collectives, with nccl-tests' names.
func DTypes() []string {
	return []string{
		"int8", "uint8", "int32", "uint32", "int64", "uint64",
		"half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2",
	}
}

// RedOps lists the reduction operators, with nccl-tests' names.
func RedOps() []string { return []string{"sum", "prod", "max", "min", "avg", "mulsum"} }
