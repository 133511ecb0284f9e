package nccl

/*
#include "enqueue.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// way is an implementation of an operation.
type way struct {
	how     C.int
	path    string   // name in documents
	symbols []string // functions that it needs
}

func native(how C.int, symbol string) way { return way{how, symbol, []string{symbol}} }

func grouped(how C.int) way {
	return way{how, nccl.GroupedSendRecv, []string{"ncclSend", "ncclRecv"}}
}

// ways lists the implementations of each operation in order of preference. RCCL's all-to-all has a
// different spelling from NCCL's. NCCL has no alltoallv.
var ways = map[runner.Op][]way{
	runner.AllReduce:     {native(C.CX_ALL_REDUCE, "ncclAllReduce")},
	runner.AllGather:     {native(C.CX_ALL_GATHER, "ncclAllGather")},
	runner.ReduceScatter: {native(C.CX_REDUCE_SCATTER, "ncclReduceScatter")},
	runner.AllToAll: {
		native(C.CX_ALLTOALL, "ncclAlltoAll"), native(C.CX_ALLTOALL_OLD, "ncclAllToAll"), grouped(C.CX_ALLTOALL_GROUPED),
	},
	runner.Broadcast: {native(C.CX_BROADCAST, "ncclBroadcast")},
	runner.SendRecv:  {grouped(C.CX_SENDRECV)},
	runner.Reduce:    {native(C.CX_REDUCE, "ncclReduce")},
	runner.Gather:    {native(C.CX_GATHER, "ncclGather"), grouped(C.CX_GATHER_GROUPED)},
	runner.Scatter:   {native(C.CX_SCATTER, "ncclScatter"), grouped(C.CX_SCATTER_GROUPED)},
	runner.Hypercube: {grouped(C.CX_HYPERCUBE)},
	runner.AllToAllV: {native(C.CX_ALLTOALLV, "ncclAlltoAllv"), native(C.CX_ALLTOALLV_OLD, "ncclAllToAllv")},
}

// choose returns the best implementation for which the library has the symbols.
func choose(l *nccl.Library, op runner.Op) (way, error) {
	lacks := fmt.Errorf("no call of the library does operation %s", op)
	all := ways[op]
	if op.Exchanges() {
		all = append(slices.Clone(all), grouped(C.CX_EXCHANGE))
	}
	for _, w := range all {
		if lacks = l.Need(w.symbols...); lacks == nil {
			return w, nil
		}
	}
	return way{}, lacks
}

// The first versions of NCCL with a type or reduction. RCCL uses the same version codes.
const (
	sinceBFloat16 = 21003
	sinceAvg      = 21003
	sinceFP8      = 22403
)

// fp8Arch is the first NVIDIA architecture that reduces fp8.
const fp8Arch = 90

func (k *comm) Supports(c runner.Call) error {
	l := k.c.Library()
	if _, err := choose(l, c.Op); err != nil {
		return rank.Coded(result.ReasonNoSymbol, err)
	}
	if c.RedOp == workload.MulSum {
		if err := l.Need("ncclRedOpCreatePreMulSum"); err != nil {
			return rank.Coded(result.ReasonNoSymbol, err)
		}
	}
	mscclpp := l.Kind == nccl.MSCCLPP // its version is unrelated to NCCL's
	if mscclpp {
		if err := supportsMSCCLPP(c); err != nil {
			return err
		}
	}
	fp8 := c.Type == numeric.F8E4M3 || c.Type == numeric.F8E5M2
	arch := k.device.Info().Arch
	switch {
	case !mscclpp && (c.Type == numeric.BFloat16 && l.Version < sinceBFloat16 || fp8 && l.Version < sinceFP8):
		return rank.Refused("%s %s has no %s: load a newer library", l.Kind, l.VersionString(), c.Type)
	case c.RedOp == workload.Avg && l.Version < sinceAvg:
		return rank.Refused("%s %s has no %s: load a newer library", l.Kind, l.VersionString(), c.RedOp)
	case !mscclpp && fp8 && c.Op.Reduces() && smVersion(arch) > 0 && smVersion(arch) < fp8Arch:
		return rank.Refused("%s does not reduce %s", arch, c.Type)
	case fp8 && c.Op.Reduces() && strings.HasPrefix(arch, "gfx94"):
		// These devices use FNUZ formats, whose exponent bias differs. Package data has no patterns
		// for them.
		return rank.Refused("%s uses a different format of %s (FNUZ), which is not supported", arch, c.Type)
	}
	return nil
}

// smVersion returns N of sm_N, or 0 for devices of other vendors.
func smVersion(arch string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(arch, "sm_"))
	return n
}

// supportsMSCCLPP refuses calls with which MSCCL++ would end the process instead of returning an error,
// and calls that it forwards to another library (MSCCLPP_NCCL_LIB_PATH).
func supportsMSCCLPP(c runner.Call) error {
	switch c.Type {
	case numeric.Int8, numeric.Int64, numeric.Uint64, numeric.Double:
		return rank.Refused("mscclpp has no %s", c.Type)
	}
	switch {
	case c.Op.Reduces() && c.RedOp != workload.Sum && c.RedOp != workload.Min:
		return rank.Refused("mscclpp has no %s", c.RedOp)
	case c.Op != runner.AllReduce && c.Op != runner.AllGather:
		return rank.Refused("mscclpp does not implement %s itself", c.Op)
	}
	return nil
}

// The layout that a runner.Call must have in memory. A test compares it.
const (
	callBytes = C.sizeof_cx_call
	callRecv  = C.sizeof_cx_call - 2*C.sizeof_uintptr_t
)
