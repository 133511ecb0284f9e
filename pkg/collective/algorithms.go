package collective

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// algorithm is one of the ways in which NCCL and RCCL perform an operation.
type algorithm struct {
	name        string   // an algorithm and a protocol; in capitals, NCCL's own name of the pair
	algo, proto string   // values of NCCL_ALGO and NCCL_PROTO
	ops         []string // that have it
}

// algorithms are in the order of tables. PAT names its operations, since every operation of the
// communicator would fail that has no algorithm left.
var algorithms = []algorithm{
	{"tree_ll", "Tree", "LL", reduced},
	{"tree_ll128", "Tree", "LL128", reduced},
	{"tree_simple", "Tree", "Simple", reduced},
	{"ring_ll", "Ring", "LL", ringed},
	{"ring_ll128", "Ring", "LL128", ringed},
	{"ring_simple", "Ring", "Simple", ringed},
	{"collnet_direct_simple", "CollnetDirect", "Simple", switched},
	{"collnet_chain_simple", "CollnetChain", "Simple", reduced},
	{"nvls_simple", "NVLS", "Simple", switched},
	{"nvlstree_simple", "NVLSTree", "Simple", reduced},
	{"pat_simple", "allgather:PAT;reducescatter:PAT", "Simple", []string{"all_gather", "reduce_scatter"}},
}

var (
	reduced  = []string{"all_reduce"}
	switched = []string{"all_reduce", "all_gather", "reduce_scatter"}
	ringed   = []string{"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"}
)

// AlgorithmNames lists the names of the algorithms with their protocols.
var AlgorithmNames = vocab.List("algorithm", namesOf(algorithms)...)

func namesOf(all []algorithm) (names []string) {
	for _, a := range all {
		names = append(names, a.name)
	}
	return names
}

// AlgorithmsOf lists the algorithms of an operation among has.
func AlgorithmsOf(op string, has []string) []string {
	return slices.DeleteFunc(AlgorithmNames(), func(name string) bool {
		return !slices.Contains(has, name) || !slices.Contains(algorithmOf(name).ops, op)
	})
}

func algorithmOf(name string) (a algorithm) {
	if i := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.name == name }); i >= 0 {
		a = algorithms[i]
	}
	return a
}

// Selecting returns the environment in which a communicator uses an algorithm only; nil for the choice of
// the library, "".
func Selecting(name string) map[string]string {
	a := algorithmOf(name)
	if a.name == "" {
		return nil
	}
	return map[string]string{"NCCL_ALGO": a.algo, "NCCL_PROTO": a.proto}
}
