package nccl

/*
#include <limits.h>
#include "abi.h"
*/
import "C"

import "unsafe"

const configMagic = 0xcafebeef

// Config is what a communicator is asked for. The zero value leaves everything
// to the library, but for NVLinkCentric, which nccl-tests sets too.
type Config struct {
	// CTAPolicy is 0 default, 1 efficiency, 2 zero; nil leaves it unset.
	CTAPolicy *int
	// MaxP2PPeers bounds the peers of point-to-point operations; 0 leaves it unset.
	MaxP2PPeers int
	// NVLinkCentric asks for the schedule that suits a benchmark that has the
	// device for itself.
	NVLinkCentric bool
}

// fill writes the config block of a library whose ncclGetVersion returned v.
// A library copies no more than it knows and resets the fields that are newer
// than the block's version, so that the version has to be the library's own and
// the block may be the largest. Before 2.17 blocking may not be undefined.
func (c Config) fill(v Version) C.cx_nccl_config {
	const undefined = C.INT_MIN
	block := C.cx_nccl_config{
		magic: configMagic, version: C.uint32_t(v), blocking: 1,
		cgaClusterSize: undefined, minCTAs: undefined, maxCTAs: undefined,
		splitShare: undefined, trafficClass: undefined, collnetEnable: undefined, CTAPolicy: undefined,
		shrinkShare: undefined, nvlsCTAs: undefined, nChannelsPerNetPeer: undefined, nvlinkCentricSched: undefined,
		graphUsageMode: undefined, numRmaCtx: undefined, maxP2pPeers: undefined, graphStreamOrdering: undefined,
	}
	block.size = C.size_t(unsafe.Sizeof(block))
	if c.CTAPolicy != nil && v >= v2_27 {
		block.CTAPolicy = C.int32_t(*c.CTAPolicy)
	}
	if c.NVLinkCentric && v >= v2_28 {
		block.nvlinkCentricSched = 1
	}
	if c.MaxP2PPeers > 0 && v >= v2_30 {
		block.maxP2pPeers = C.int32_t(c.MaxP2PPeers)
	}
	return block
}
