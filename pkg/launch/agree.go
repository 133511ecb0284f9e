package launch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// description is what the members send each other.
type description struct {
	rank.Place

	Nonce     string            `json:"nonce"`
	Host      string            `json:"host"`
	Task      string            `json:"task"`
	Env       map[string]string `json:"env"`
	Network   map[string]string `json:"network"`
	LinkLayer string            `json:"link_layer"`
	Devices   int               `json:"devices"`
	Unusable  string            `json:"unusable"` // what is wrong with the network here
}

// exchange exchanges the descriptions of the members and checks that they agree. It ends with
// a barrier under a name that only living processes know, since a store in files may have the
// descriptions of an earlier start.
func (t *Team) exchange(ctx context.Context) error {
	me, err := t.describe()
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, joinLimit)
	defer stop()
	members, err := gather(ctx, t, "join", me)
	if err != nil {
		return err
	}
	for _, m := range members {
		t.places = append(t.places, m.Place)
	}
	if err := t.store.Barrier(ctx, "joined-"+members[0].Nonce, me.Rank, me.World); err != nil {
		return t.waitError(ctx, err)
	}
	if wrong := agree(members); wrong != nil {
		return Disagreement{wrong}
	}
	return nil
}

// gather returns the values of all processes by rank.
func gather[V any](ctx context.Context, t *Team, name string, value V) ([]V, error) {
	me := t.member.Place
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	all, err := t.store.Gather(ctx, name, me.Rank, me.World, raw)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("rank %d has joined already: another start uses the same %s, or an earlier one has left %s there (%w)", me.Rank, StoreVariable, storeDir, os.ErrExist)
	}
	if err != nil {
		return nil, t.waitError(ctx, err)
	}
	values := make([]V, len(all))
	for r, raw := range all {
		if err := json.Unmarshal(raw, &values[r]); err != nil {
			return nil, fmt.Errorf("rank %d: %w", r, err)
		}
	}
	return values, nil
}

// waitError returns the error of a wait that failed, perhaps because another process has ended.
func (t *Team) waitError(ctx context.Context, err error) error {
	_, tcp := rendezvous.OverTCP(t.member.Store)
	switch cause := context.Cause(ctx); {
	case cause != nil && !errors.Is(cause, ctx.Err()):
		return cause
	case cause == nil && tcp && !t.Leads() && rendezvous.ConnectionLost(err):
		return fmt.Errorf("rank 0 has ended: %w", err)
	default:
		return err
	}
}

func (t *Team) describe() (description, error) {
	d := description{
		Place: t.member.Place, Nonce: rand.Text(), Task: t.member.Task, Env: inherited(), Network: network(t.member.Network).selection(),
		Devices: t.member.Devices,
	}
	var err error
	if d.Host, err = hostID(); err != nil {
		return d, err
	}
	layer, wrong := network(t.member.Network).check(sysfs.Here())
	if wrong != nil {
		d.Unusable = wrong.reason(d.Node)
	}
	d.LinkLayer = layer
	return d, nil
}

// hostID returns a text that no other host has.
func hostID() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return name + "/" + strings.TrimSpace(string(boot)), err
}

// agree returns an error unless the members have the same task and equal environments, and each
// node is one host.
func agree(members []description) error {
	first := members[0]
	for r, m := range members {
		var differ []string
		names := maps.Clone(m.Env)
		maps.Copy(names, first.Env)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if m.Env[name] != first.Env[name] {
				differ = append(differ, name)
			}
		}
		switch {
		case m.Task != first.Task:
			return fmt.Errorf("rank %d was started with another command, matrix, backend or version of this program than rank 0: start all with the same command", r)
		case len(differ) > 0:
			return fmt.Errorf("rank %d has another %s than rank 0: start all ranks in the same environment", r, strings.Join(differ, ", "))
		case m.Unusable != "":
			return errors.New(m.Unusable)
		case m.Devices > 0 && m.Devices <= m.LocalRank:
			return fmt.Errorf("rank %d sees %s, and needs device %d of its host, counted from 0: start one process for each device, and let all of them see all devices of their host",
				r, plural.Count(m.Devices, "device", "devices"), m.LocalRank)
		case !maps.Equal(m.Network, first.Network):
			return fmt.Errorf("the operator values of rank %d select another network than rank 0's: set CX_OPERATOR_CONFIG for all", r)
		case m.LinkLayer != first.LinkLayer:
			return fmt.Errorf("network.rdma_devices are %[2]s on rank %[1]d and %[3]s on rank 0: name devices of one kind", r, m.LinkLayer, first.LinkLayer)
		}
		for other, o := range members[:r] {
			switch {
			case o.Node == m.Node && o.Host != m.Host:
				return fmt.Errorf("ranks %d and %d are on different hosts, and the cell has them on one node: number the ranks node after node", other, r)
			case o.Node != m.Node && o.Host == m.Host:
				return fmt.Errorf("ranks %d and %d are on one host, and the cell has them on two nodes: start the ranks on %d hosts", other, r, members[len(members)-1].Node+1)
			}
		}
	}
	return nil
}
