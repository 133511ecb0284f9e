// Package laneenv finds environment variables that would make a library use another lane than the
// case names. Ranks refuse to run with them.
package laneenv

import (
	"fmt"
	"os"
)

// Variables are the variables that change which lane a library uses.
type Variables struct {
	Library string // for messages
	Names   []string
}

// UCX is the library by which NIXL moves data. UCX_NET_DEVICES, which launchers keep from the
// ranks of one host, is not listed.
var UCX = Variables{"UCX", []string{"UCX_TLS", "UCX_MODULES", "UCX_SHM_DEVICES", "UCX_ACC_DEVICES", "UCX_PROTOS", "UCX_PROTO_ENABLE"}}

// Mooncake is the transfer engine of Mooncake.
var Mooncake = Variables{"Mooncake", []string{"MC_FORCE_HCA", "MC_FORCE_MNNVL", "MC_INTRANODE_NVLINK"}}

// Check returns an error that names the first variable that is set, or nil.
func (v Variables) Check() error {
	for _, name := range v.Names {
		if value, ok := os.LookupEnv(name); ok {
			return fmt.Errorf("%s=%s: %s would not use the lane of the case: unset it", name, value, v.Library)
		}
	}
	return nil
}
