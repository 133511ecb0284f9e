package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/safefile"
)

// How long the shard waits for ranks.
const (
	pollInterval = 40 * time.Millisecond // between two readings of the ranks' streams; long, since reading takes processor time from ranks that measure
	failureGrace = 2 * time.Second       // for the other ranks to report their part of a failure
	deathGrace   = 10 * time.Second      // for the launcher to report the end of a rank that others have lost
	dumpGrace    = 10 * time.Second      // for ranks to write stacks
	stopGrace    = 30 * time.Second      // for ranks to close libraries and devices
	killReserve  = 2 * time.Second       // of the time until a group's deadline, to kill ranks and read what they wrote
)

// groupKey returns what the cases of one cell must share to run in one warm group.
// Variables that choose a library file are part of Env. Variables that the shard inherited are
// the same for all of its cases.
func groupKey(c plan.Case) string {
	env, _ := json.Marshal(c.Env) // keys are sorted; strings always marshal
	return fmt.Sprint(c.Family, c.Backend, c.World, c.Nodes, c.RanksPerNode, c.Repeat, string(env))
}

// home is the store of a group, for the shard.
type home interface {
	rendezvous.Store
	// Address is the address for rendezvous.Join, with Env in the environment.
	Address() string
	Env() map[string]string
}

func (r *runner) openStore(dir string, world int) (home, error) {
	if r.Listen != "" {
		return rendezvous.Lead(r.Listen, world)
	}
	return rendezvous.OpenFile(dir)
}

type group struct {
	key    string
	ranks  launch.Group
	store  home
	dir    string // of a store in files; removed at the end
	logs   string // directory
	world  int
	orders int
	files  map[string][]byte // for every case
	env    map[string]string // of its ranks; see runner.environment
	broken bool              // a rank has ended
	// fits returns an error for a rank whose device is not one of the cell's platform.
	fits func(rank.Facts) error
	// deadline is when the shard's time ends.
	deadline time.Time
}

// startGroup starts the ranks for c, and for the cases that may follow it, within budget.
func (r *runner) startGroup(ctx context.Context, c plan.Case, budget time.Duration) (*group, error) {
	if r.machines == nil {
		var err error
		if r.machines, err = r.Launcher.Allocate(ctx); err != nil {
			return nil, err
		}
		r.waited = r.machines.Queued()
		r.started = r.started.Add(r.waited) // the limit counts from the grant
	}
	r.groups++
	name := fmt.Sprintf("group-%03d", r.groups)
	g := &group{
		key: groupKey(c), dir: filepath.Join(r.machines.Dir(), name), logs: filepath.Join(r.logs, name),
		world: c.World, files: r.Files, env: r.environment(c), fits: r.Fits, deadline: r.deadline(),
	}
	var err error
	if g.store, err = r.openStore(g.dir, c.World); err != nil {
		return nil, err
	}
	env := maps.Clone(g.env)
	maps.Copy(env, g.store.Env())
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	g.ranks, err = r.machines.Start(ctx, launch.Spec{
		Places: launch.Places(c.World, c.RanksPerNode), Store: g.store.Address(), Env: env, LogDir: g.logs,
	})
	if err != nil {
		return nil, errors.Join(err, g.store.Close(), safefile.RemoveAll(g.dir))
	}
	return g, nil
}

// environment returns the variables of the ranks of c, except inherited variables and the
// store's.
func (r *runner) environment(c plan.Case) map[string]string {
	env := map[string]string{}
	maps.Copy(env, c.Env)
	if r.Network != nil {
		maps.Copy(env, r.Network(c))
	}
	return env
}

// alive reports whether all ranks are waiting for the next case.
func (g *group) alive() bool {
	select {
	case <-g.ranks.Exits():
		g.broken = true
	default:
	}
	return !g.broken
}

func (g *group) order(ctx context.Context, o rank.Order) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return g.store.Put(context.WithoutCancel(ctx), rank.OrderKey(g.orders), raw)
}

// drain returns the exits within grace and before ctx ends. It returns at once when all
// ranks have ended.
func (g *group) drain(ctx context.Context, grace time.Duration) (exits []launch.Exit) {
	g.broken = true
	deadline := time.After(grace)
	for {
		select {
		case <-ctx.Done():
			return exits
		case exit, ok := <-g.ranks.Exits():
			if !ok {
				return exits
			}
			exits = append(exits, exit)
		case <-deadline:
			return exits
		}
	}
}

// atMost returns grace, or less if the deadline of the group is near.
func (g *group) atMost(grace time.Duration) time.Duration {
	return min(grace, time.Until(g.deadline)-killReserve)
}

// first returns the next exit, or none if none comes within grace and before ctx ends.
func (g *group) first(ctx context.Context, grace time.Duration) (exits []launch.Exit) {
	select {
	case exit, ok := <-g.ranks.Exits():
		if ok {
			exits = append(exits, exit)
		}
	case <-ctx.Done():
	case <-time.After(grace):
	}
	return exits
}

// dump makes all ranks write their stacks, and gives them time to do so.
func (g *group) dump(ctx context.Context) {
	g.ranks.Dump()
	g.drain(ctx, g.atMost(dumpGrace))
}

// close ends a group. Ranks that wait for a case close what they opened. All ranks are dead
// when it returns without an error.
func (g *group) close(ctx context.Context) error {
	if !g.broken && ctx.Err() == nil {
		g.orders++
		if g.order(ctx, rank.Order{Stop: true}) == nil {
			g.drain(ctx, min(stopGrace, time.Until(g.deadline)))
		}
	}
	return errors.Join(g.ranks.Kill(), g.store.Close(), safefile.RemoveAll(g.dir))
}
