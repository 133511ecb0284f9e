package collective

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// algorithm is one of the ways in which NCCL and RCCL perform an operation.
type algorithm struct {
	name        string   // an algorithm and a protocol; in capitals, NCCL's own name of the pair
	algo, proto string   // values of NCCL_ALGO and NCCL_PROTO
	kernel      string   // of symmetric windows: the value of NCCL_SYM_KERNEL, after the operation
	ops         []string // that have it
}

// algorithms are in the order of tables. PAT names its operations, since every operation of the
// communicator would fail that has no algorithm left.
var algorithms = []algorithm{
	{"tree_ll", "Tree", "LL", "", reduced},
	{"tree_ll128", "Tree", "LL128", "", reduced},
	{"tree_simple", "Tree", "Simple", "", reduced},
	{"ring_ll", "Ring", "LL", "", ringed},
	{"ring_ll128", "Ring", "LL128", "", ringed},
	{"ring_simple", "Ring", "Simple", "", ringed},
	{"collnet_direct_simple", "CollnetDirect", "Simple", "", switched},
	{"collnet_chain_simple", "CollnetChain", "Simple", "", reduced},
	{"nvls_simple", "NVLS", "Simple", "", switched},
	{"nvlstree_simple", "NVLSTree", "Simple", "", reduced},
	{"pat_simple", "allgather:PAT;reducescatter:PAT", "Simple", "", parted},
	{name: "symk_agxll_r", kernel: "AGxLL_R", ops: reduced},
	{name: "symk_agxllmc_r", kernel: "AGxLLMC_R", ops: reduced},
	{name: "symk_rsxtmald_agxtmast", kernel: "RSxTmaLD_AGxTmaST", ops: reduced},
	{name: "symk_rsxld_agxst", kernel: "RSxLD_AGxST", ops: reduced},
	{name: "symk_rsxldmc_agxstmc", kernel: "RSxLDMC_AGxSTMC", ops: reduced},
	{name: "symk_ll", kernel: "LL", ops: parted},
	{name: "symk_llmc", kernel: "LLMC", ops: parted[:1]},
	{name: "symk_tmast", kernel: "TmaST", ops: parted[:1]},
	{name: "symk_st", kernel: "ST", ops: parted[:1]},
	{name: "symk_tmastmc", kernel: "TmaSTMC", ops: parted[:1]},
	{name: "symk_stmc", kernel: "STMC", ops: parted[:1]},
	{name: "symk_tmald", kernel: "TmaLD", ops: parted[1:]},
	{name: "symk_ld", kernel: "LD", ops: parted[1:]},
	{name: "symk_ldmc", kernel: "LDMC", ops: parted[1:]},
	{name: devicePrefix + "lsa", ops: loaded},
	{name: devicePrefix + "lsa_vec", ops: loaded},
	{name: devicePrefix + "put", ops: paired},
	{name: devicePrefix + "get", ops: paired},
	{name: devicePrefix + "ping_pong", ops: paired[1:]},
	{name: devicePrefix + "put_window", ops: paired},
}

// devicePrefix begins the names of algorithms that are not the library's: kernels of this program perform them over
// NCCL's device interface, in symmetric windows.
const devicePrefix = "device_"

// ByDevice reports whether kernels of this program perform an algorithm.
func ByDevice(name string) bool { return strings.HasPrefix(name, devicePrefix) }

// DeviceAlgorithms lists the algorithms of an operation that kernels of this program perform, in the order of
// nccl-tests' -D.
func DeviceAlgorithms(op string) (names []string) {
	for _, a := range algorithms {
		if ByDevice(a.name) && slices.Contains(a.ops, op) {
			names = append(names, a.name)
		}
	}
	return names
}

var (
	reduced  = []string{"all_reduce"}
	parted   = []string{"all_gather", "reduce_scatter"}
	switched = []string{"all_reduce", "all_gather", "reduce_scatter"}
	ringed   = []string{"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"}
	loaded   = []string{"all_reduce", "all_gather", "alltoall"}
	paired   = []string{"p2p", "p2p_bidir"}
)

// AlgorithmNames lists the names of the algorithms with their protocols.
var AlgorithmNames = vocab.List("algorithm", namesOf(algorithms)...)

func namesOf(all []algorithm) (names []string) {
	for _, a := range all {
		names = append(names, a.name)
	}
	return names
}

// AlgorithmsOf lists the algorithms of an operation on buffers of a registration, among has. Symmetric windows
// have their own.
func AlgorithmsOf(op, registration string, has []string) []string {
	return slices.DeleteFunc(AlgorithmNames(), func(name string) bool {
		a := algorithmOf(name)
		return !slices.Contains(has, name) || !slices.Contains(a.ops, op) || (a.kernel != "" || ByDevice(name)) != (registration == vocab.SymmetricWindow)
	})
}

func algorithmOf(name string) (a algorithm) {
	if i := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.name == name }); i >= 0 {
		a = algorithms[i]
	}
	return a
}

// MaxCTAs is the maximum number of CTAs of an operation of NCCL.
const MaxCTAs = 64

// Variant names an algorithm with a number of CTAs, such as ring_ll(8). Where the library chooses the algorithm, its
// name is auto; 0 CTAs, whose number it chooses, have no name. The result is "" if it chooses both.
func Variant(algorithm string, ctas int) string {
	if ctas == 0 {
		return algorithm
	}
	return fmt.Sprintf("%s(%d)", cmp.Or(algorithm, "auto"), ctas)
}

// Variant names what the case chooses in the place of the library.
func (b *Block) Variant() string { return Variant(b.Algorithm, b.CTAs) }

// Selecting returns the environment in which the operation has only the algorithm and the CTAs of the case; nil if
// the library chooses both, or kernels of this program perform it.
func (b *Block) Selecting() map[string]string {
	if ByDevice(b.Algorithm) {
		return nil
	}
	env := map[string]string{}
	if b.CTAs > 0 {
		n := strconv.Itoa(b.CTAs)
		env[limits[0]], env[limits[1]] = n, n
	}
	switch a := algorithmOf(b.Algorithm); {
	case a.name == "":
	case a.kernel != "":
		env[selectors[2]] = map[string]string{"all_reduce": "AllReduce_", "all_gather": "AllGather_", "reduce_scatter": "ReduceScatter_"}[b.Op] + a.kernel
	default:
		env[selectors[0]], env[selectors[1]] = a.algo, a.proto
	}
	if len(env) == 0 {
		return nil
	}
	return env
}

// selectors and limits are the variables with which NCCL and RCCL select algorithms, and numbers of CTAs.
var (
	selectors = []string{"NCCL_ALGO", "NCCL_PROTO", "NCCL_SYM_KERNEL"}
	limits    = []string{"NCCL_MIN_CTAS", "NCCL_MAX_CTAS"}
)

// Selected returns a variable of the environment of this process that selects algorithms or, with ctas, their CTAs,
// or "".
func Selected(ctas bool) string {
	names := selectors
	if ctas {
		names = append(slices.Clone(names), limits...)
	}
	for _, name := range names {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

// Selection returns NCCL's selection of an algorithm alone for a call; "" for its own choice, "". NCCL takes a name
// for the beginning of names.
func Selection(name string) string {
	if name == "" {
		return ""
	}
	all := []string{strings.ToUpper(name)}
	for _, other := range AlgorithmNames() {
		if other != name && strings.HasPrefix(other, name) {
			all = append(all, "^"+strings.ToUpper(other))
		}
	}
	return strings.Join(all, "+")
}
