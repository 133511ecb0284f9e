package nccl

/*
#include <limits.h>
#include "abi.h"
*/
import "C"

import "unsafe"

const configMagic = 0xcafebeef

// Config holds the options of a communicator. The zero value leaves all of them to the
// library.
type Config struct {
	// NVLinkCentric requests the schedule for a program that has the device to itself, as
	// nccl-tests does.
	NVLinkCentric bool
}

// fill returns the config block for a library whose ncclGetVersion returned v. A library
// copies only the fields it knows, and resets those that are newer than the version in the
// block. The version must therefore be the library's own, while the block may be the
// largest one. Before 2.17, blocking must not be undefined.
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
	if c.NVLinkCentric && v >= v2_28 {
		block.nvlinkCentricSched = 1
	}
	return block
}
