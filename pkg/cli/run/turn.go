package run

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/preflight"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// locksVariable names the directory with the files by which processes take turns at devices: for containers on
// one machine, a directory that all of them mount.
const locksVariable = "CX_DEVICE_LOCKS"

// turnKey is the key under which a context lists the devices that this process has its turn at.
type turnKey struct{}

// takeTurn takes the turn of this process at devices of this machine, given by their PCI addresses, unless ctx
// has it already. It waits for the processes that use them if wait is set, and fails otherwise. The turn is for
// commands called with the returned context, and lasts until release is called.
//
// Processes take no turns at a host. Programs other than cxrun use its processors and memory too, and tests on one
// host, of any users, would wait for each other without need.
func takeTurn(ctx context.Context, s cli.Streams, devices []string, wait bool) (held context.Context, release func(), err error) {
	mine, _ := ctx.Value(turnKey{}).([]string)
	devices = slices.DeleteFunc(slices.Clone(devices), func(d string) bool { return slices.Contains(mine, d) })
	slices.Sort(devices) // so that no two processes wait for each other
	var turns []*dirlock.Turn
	release = func() {
		for _, t := range turns {
			_ = t.Release() // nothing was written through it
		}
	}
	dir := cmp.Or(os.Getenv(locksVariable), rendezvous.Memory())
	for _, d := range slices.Compact(devices) {
		t, err := dirlock.TakeTurn(ctx, dir, "cxrun-device-"+d, func(pid int) error {
			if !wait {
				return cli.EnvironmentError("process %d, another cxrun, uses GPU %s: add --wait to wait for it, or select other GPUs", pid, d)
			}
			s.Tell("cxrun: waiting for process %d, another cxrun, which uses GPU %s", pid, d)
			return nil
		})
		if err != nil {
			release()
			if _, known := errors.AsType[*cli.ExitError](err); ctx.Err() != nil {
				err = errInterrupted
			} else if !known {
				err = cli.EnvironmentError("take turns at GPU %s: %w", d, err)
			}
			return ctx, func() {}, err
		}
		turns = append(turns, t)
	}
	return context.WithValue(ctx, turnKey{}, slices.Concat(mine, devices)), release, nil
}

// devicesOf returns the devices of this machine on which ranks of the cells run: for each cell, the devices of local
// ranks 0, 1 and so on. It omits cells that a scheduler runs on other machines.
func devicesOf(m *plan.Matrix, cells []plan.Cell, this preflight.Survey) []string {
	var devices []string
	for _, cell := range cells {
		cases, err := m.Cases(cell)
		if err != nil || cell.Vendor == vocab.Host || cell.Launcher == "slurm" {
			continue // what runs the cell reports the error
		}
		usable := this.Addresses[cell.Vendor]
		devices = append(devices, usable[:min(maxRanksPerNode(cases), len(usable))]...)
	}
	return devices
}
