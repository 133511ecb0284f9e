package nccl

/*
#include <limits.h>
#include <stdlib.h>
#include "abi.h"
*/
import "C"

import "unsafe"

// PerCall reports whether calls of the library take a configuration of their own, with the algorithm and CTAs to use.
func (l *Library) PerCall() bool {
	return l.Kind == NCCL && l.Version >= v2_31 && l.has["ncclAllReduceConfig"]
}

// NewCallConfig returns a cx_nccl_call_config that forces the algorithms of a selection, in NCCL's syntax, and a
// number of CTAs, and a function that frees it. With "" and 0 the library chooses.
func (l *Library) NewCallConfig(selection string, ctas int) (config unsafe.Pointer, free func()) {
	block := (*C.cx_nccl_call_config)(C.calloc(1, C.sizeof_cx_nccl_call_config))
	*block = C.cx_nccl_call_config{
		size: C.sizeof_cx_nccl_call_config, magic: configMagic, version: C.uint32_t(l.Version),
		minCTAs: undefined, maxCTAs: undefined, nvlsCTAs: undefined, cgaClusterSize: undefined, CTAPolicy: undefined,
		forceAlgSelection: 1,
	}
	if selection != "" {
		block.algSelection = C.CString(selection)
	}
	if ctas > 0 {
		block.minCTAs, block.maxCTAs = C.int32_t(ctas), C.int32_t(ctas)
	}
	return unsafe.Pointer(block), func() {
		C.free(unsafe.Pointer(block.algSelection))
		C.free(unsafe.Pointer(block))
	}
}

const (
	configMagic = 0xcafebeef
	undefined   = C.INT_MIN
)

// Config holds the options of a communicator. The zero value leaves all of them to the
// library.
type Config struct {
	// NVLinkCentric sets nvlinkCentricSched, as nccl-tests does. It is for programs that have
	// the device to themselves.
	NVLinkCentric bool
	// OneGraph promises that graphs of the communicator's operations are launched one at a time, and
	// never beside operations outside of graphs. Otherwise each captured collective waits for events
	// that keep the two apart, some 14 µs on an H100.
	OneGraph bool
}

// fill returns the ncclConfig_t for a library whose ncclGetVersion returned v. A library
// copies only the fields it knows, and resets fields that are newer than the version in the
// struct. The struct may therefore have fields that the library does not know, but its
// version must be the library's. Before 2.17, blocking must not be undefined.
func (c Config) fill(v Version) C.cx_nccl_config {
	block := C.cx_nccl_config{
		magic: configMagic, version: C.uint32_t(v), blocking: 1,
		cgaClusterSize: undefined, minCTAs: undefined, maxCTAs: undefined,
		splitShare: undefined, trafficClass: undefined, collnetEnable: undefined, CTAPolicy: undefined,
		shrinkShare: undefined, nvlsCTAs: undefined, nChannelsPerNetPeer: undefined, nvlinkCentricSched: undefined,
		graphUsageMode: undefined, numRmaCtx: undefined, maxP2pPeers: undefined, graphStreamOrdering: undefined,
	}
	block.size = C.size_t(unsafe.Sizeof(block))
	if c.NVLinkCentric && v >= v2_28 {
		block.nvlinkCentricSched = 1
	}
	if c.OneGraph && v >= v2_29 {
		block.graphUsageMode = 1
	}
	return block
}
