// Package hostrank serves all ranks without a GPU. It opens the rank's share of the
// host, reports its facts, and maps the memory of all ranks of a group into each rank.
package hostrank

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Open opens the device of the rank, one of localWorld ranks of this host; see host.Open.
// Errors have a reason code.
func Open(s *rank.Session, localWorld int) (*host.Device, error) {
	d, err := host.Open(s.LocalRank, localWorld)
	if err != nil {
		return nil, rank.Coded(result.ReasonDevice, err)
	}
	return d, nil
}

// Facts returns the facts of a rank that measures on d.
func Facts(d *host.Device) rank.Facts {
	info := d.Info()
	facts := rank.Facts{
		DeviceProduct: info.Product, DeviceArch: info.Arch,
		Framework: "host", AcceleratorRuntime: info.Runtime, NUMANode: d.NUMANode(),
	}
	if cpus, pinned := d.CPUs(); pinned {
		facts.CPUs = cpus
	}
	return facts
}

// Peer is a rank of the group.
type Peer struct {
	*host.Segment // the memory of its device, mapped here
	PID           int
	Pinned        bool // the rank is pinned to a processor of its own
}

// Group holds all ranks of this host, by rank.
type Group struct {
	Peers []Peer
	rank  int
}

// member is the data of a rank that Join exchanges.
type member struct {
	Boot   string      `json:"boot"` // boot id, the same on all ranks of one host
	Heap   host.Handle `json:"heap"`
	Pinned bool        `json:"pinned"`
}

// Join maps the device memory of all ranks of s. All ranks call it together. It fails with
// result.ReasonEnvironment if a rank is on another host.
func Join(ctx context.Context, s *rank.Session, d *host.Device) (*Group, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("identify this host: %w", err)
	}
	me := member{Boot: strings.TrimSpace(string(boot)), Heap: d.Segment().Handle()}
	_, me.Pinned = d.CPUs()
	members, err := rank.Gather(ctx, s, "host-group", me)
	if err != nil {
		return nil, err
	}
	g := &Group{rank: s.Rank}
	if err := g.attach(members, d.Segment()); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	// A segment can be opened only while its owner runs, so wait until all ranks have mapped it.
	if err := s.Barrier(ctx, "host-group-open"); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// attach maps the memory of all other ranks.
func (g *Group) attach(members []member, own *host.Segment) error {
	for r, m := range members {
		p := Peer{Segment: own, PID: m.Heap.PID, Pinned: m.Pinned}
		if m.Boot != members[g.rank].Boot {
			return rank.Coded(result.ReasonEnvironment, fmt.Errorf("rank %d is on another host than rank %d: ranks of the host backend share memory and must run on one host", r, g.rank))
		}
		if r != g.rank {
			var err error
			if p.Segment, err = host.OpenSegment(m.Heap); err != nil {
				return fmt.Errorf("rank %d: %w", r, err)
			}
		}
		g.Peers = append(g.Peers, p)
	}
	return nil
}

// Others returns all ranks except this one.
func (g *Group) Others() []Peer {
	var others []Peer
	for r, p := range g.Peers {
		if r != g.rank {
			others = append(others, p)
		}
	}
	return others
}

// Close unmaps the memory of all other ranks. A second call does nothing.
func (g *Group) Close() error {
	var err error
	for _, p := range g.Others() {
		err = errors.Join(err, p.Segment.Close())
	}
	g.Peers = nil
	return err
}
