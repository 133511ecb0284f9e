package nccl

/*
#include "enqueue.h"
*/
import "C"

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// configured lists the calls that take a configuration.
var configured = map[runner.Op]way{
	runner.AllReduce:     native(C.CX_ALL_REDUCE_CONFIG, "ncclAllReduceConfig"),
	runner.AllGather:     native(C.CX_ALL_GATHER_CONFIG, "ncclAllGatherConfig"),
	runner.ReduceScatter: native(C.CX_REDUCE_SCATTER_CONFIG, "ncclReduceScatterConfig"),
	runner.Broadcast:     native(C.CX_BROADCAST_CONFIG, "ncclBroadcastConfig"),
	runner.Reduce:        native(C.CX_REDUCE_CONFIG, "ncclReduceConfig"),
}

// Choose implements runner.Chooser. Either the environment of the case has chosen the algorithm and CTAs for the
// communicator, or the configuration of each call does. Or kernels of this package perform it: then all ranks must call
// Choose, and register memory before the first operation.
func (k *comm) Choose(op runner.Op, algorithm string, ctas int) error {
	k.variant = collective.Variant(algorithm, ctas)
	if err := k.forgetChoice(); err != nil {
		return err
	}
	if collective.ByDevice(algorithm) {
		return k.useKernels(op, algorithm, ctas)
	}
	if k.variant == "" || collective.Selected(ctas > 0) != "" {
		return nil
	}
	l, call := k.c.Library(), configured[op]
	if !l.PerCall() {
		return rank.Refused("%s %s takes no algorithm for a call: load version 2.31 or newer, or set NCCL_ALGO and NCCL_PROTO, or NCCL_MIN_CTAS and NCCL_MAX_CTAS", l.Kind, l.VersionString())
	}
	if err := l.Need(call.symbols...); err != nil {
		return rank.Coded(result.ReasonNoSymbol, err)
	}
	config, free := l.NewCallConfig(collective.Selection(algorithm), ctas)
	plain, path := k.end.how[op], k.paths[op]
	k.end.how[op], k.paths[op], k.end.config = call.how, call.path, (*C.cx_nccl_call_config)(config)
	k.unchoose = func() error {
		k.end.how[op], k.paths[op], k.end.config = plain, path, nil
		free()
		return nil
	}
	return nil
}

// forgetChoice undoes what Choose did.
func (k *comm) forgetChoice() error {
	unchoose := k.unchoose
	if k.unchoose = nil; unchoose == nil {
		return nil
	}
	return unchoose()
}

// Named implements runner.Namer. The library logs the algorithm and its channels on rank 0.
func (k *comm) Named(run func() error) (runner.Used, error) {
	if d := k.kernels; d != nil {
		err := run()
		return runner.Used{Algorithm: d.algorithm, CTAs: d.blocks}, err
	}
	if k.c.Rank() > 0 {
		return runner.Used{}, run()
	}
	text, err := k.c.Library().Logged("TUNING", run)
	return usedIn(text), err
}

// used and symmetric match the algorithm of an operation in the log, since NCCL 2.27:
//
//	host:4711:4712 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..23}
//	host:4711:4712 [0] NCCL INFO AllReduce [Symmetric]: 1048576 Bytes -> Kernel AllReduce_AGxLL_R nchannels 8 nthreads 512 nWorks 1
var (
	used      = regexp.MustCompile(` NCCL INFO \w+: \d+ Bytes -> Algo (\w+) proto (\w+) (?:channel\{Lo\.\.Hi\}=\{(\d{1,3})\.\.(\d{1,3})\})?`)
	symmetric = regexp.MustCompile(` NCCL INFO \w+ \[Symmetric\]: \d+ Bytes -> Kernel [A-Za-z]+_(\w+) (?:nchannels (\d{1,3}) )?`)
)

// usedIn returns how the last operation in the log ran.
func usedIn(text string) (of runner.Used) {
	number := func(digits string) int {
		n, _ := strconv.Atoi(digits) // 0 for none
		return n
	}
	if all := used.FindAllStringSubmatch(text, -1); all != nil {
		last := all[len(all)-1]
		of.Algorithm = strings.Replace(strings.ToLower(last[1]+"_"+last[2]), "nvls_tree", "nvlstree", 1)
		if last[4] != "" {
			of.CTAs = max(0, number(last[4])-number(last[3])+1)
		}
	} else if all := symmetric.FindAllStringSubmatch(text, -1); all != nil {
		last := all[len(all)-1]
		of.Algorithm, of.CTAs = "symk_"+strings.ToLower(last[1]), number(last[2])
	}
	if !slices.Contains(collective.AlgorithmNames(), of.Algorithm) {
		return runner.Used{}
	}
	return of
}

// notOffered turns the error with which a library rejects a call for lack of what the case requires (see
// collective.Variant) into a refusal of the case. It returns other errors unchanged.
func notOffered(variant string, err error) error {
	e, failed := errors.AsType[*nccl.Error](err)
	coded, ok := errors.AsType[*rank.Error](err)
	if variant == "" || !failed || !ok || e.Result != nccl.InvalidUsage && e.Result != nccl.InvalidArgument {
		return err
	}
	return &rank.Error{Reason: result.ReasonRefused.With("%s not offered, %s %s", variant, e.Call, e.Result), Err: coded.Err}
}

// variantOf returns what a case of any family chooses in the place of the library.
func variantOf(c plan.Case) string {
	if b := collective.Of(&c); b != nil {
		return b.Variant()
	}
	return ""
}
