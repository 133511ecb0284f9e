package nccl

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Choose implements runner.Chooser. The environment of the case has chosen the algorithm for the
// communicator.
func (k *comm) Choose(algorithm string) error {
	k.algorithm = algorithm
	return nil
}

// Named implements runner.Namer. The library logs the algorithm on rank 0.
func (k *comm) Named(run func() error) (string, error) {
	if k.c.Rank() > 0 {
		return "", run()
	}
	text, err := k.c.Library().Logged("TUNING", run)
	return algorithmIn(text), err
}

// used and symmetric match the algorithm of an operation in the log, since NCCL 2.27:
//
//	host:4711:4712 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..23}
//	host:4711:4712 [0] NCCL INFO AllReduce [Symmetric]: 1048576 Bytes -> Kernel AllReduce_AGxLL_R nchannels 8 nthreads 512 nWorks 1
var (
	used      = regexp.MustCompile(` NCCL INFO \w+: \d+ Bytes -> Algo (\w+) proto (\w+) `)
	symmetric = regexp.MustCompile(` NCCL INFO \w+ \[Symmetric\]: \d+ Bytes -> Kernel [A-Za-z]+_(\w+) `)
)

// algorithmIn returns the name of the algorithm of the last operation in the log, or "".
func algorithmIn(text string) string {
	name := ""
	if all := used.FindAllStringSubmatch(text, -1); all != nil {
		last := all[len(all)-1]
		name = strings.Replace(strings.ToLower(last[1]+"_"+last[2]), "nvls_tree", "nvlstree", 1)
	} else if all := symmetric.FindAllStringSubmatch(text, -1); all != nil {
		name = "symk_" + strings.ToLower(all[len(all)-1][1])
	}
	if !slices.Contains(collective.AlgorithmNames(), name) {
		return ""
	}
	return name
}

// notOffered turns the error with which a library rejects a call for lack of the algorithm that the case
// requires into a refusal of the case. It returns other errors unchanged.
func notOffered(algorithm string, err error) error {
	e, failed := errors.AsType[*nccl.Error](err)
	coded, ok := errors.AsType[*rank.Error](err)
	if algorithm == "" || !failed || !ok || e.Result != nccl.InvalidUsage && e.Result != nccl.InvalidArgument {
		return err
	}
	return &rank.Error{Reason: result.ReasonRefused.With("%s not offered, %s %s", algorithm, e.Call, e.Result), Err: coded.Err}
}

// algorithmOf returns the algorithm of a case of any family.
func algorithmOf(c plan.Case) string {
	if b := collective.Of(&c); b != nil {
		return b.Algorithm
	}
	return ""
}
