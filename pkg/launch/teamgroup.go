package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// Allocate implements Launcher. The machines are already allocated.
func (t *Team) Allocate(ctx context.Context) (Allocation, error) {
	a := &teamAllocation{team: t}
	if t.dir != "" {
		return a, nil
	}
	var err error
	a.scratch, err = newScratch(ctx, rendezvous.Memory(), nil)
	return a, err
}

type teamAllocation struct {
	machines // with a scratch directory on this host for a store over TCP, none for a store in files

	team *Team
}

func (a *teamAllocation) Dir() string {
	if a.scratch == nil {
		return a.team.dir
	}
	return a.machines.Dir()
}

func (a *teamAllocation) Release() error {
	if a.scratch == nil {
		return nil
	}
	return a.machines.Release()
}

func (a *teamAllocation) Start(ctx context.Context, spec Spec) (Group, error) {
	t := a.team
	g := &teamGroup{team: t, logs: spec.LogDir, exits: make(chan Exit, len(spec.Places)), started: make(chan error, len(spec.Places)), ended: make(chan struct{})}
	for _, p := range spec.Places {
		of := slices.IndexFunc(t.places, func(m rank.Place) bool { return m.Node == p.Node && m.LocalRank == p.LocalRank })
		if of < 0 {
			return nil, fmt.Errorf("start ranks: rank %d of %d has no process among the %d that were started", p.Rank, p.World, len(t.places))
		}
		if t.gone[of].Load() || t.left[of] {
			return nil, fmt.Errorf("start ranks: the process of rank %d has ended", of)
		}
		g.agents = append(g.agents, of)
	}
	if err := os.MkdirAll(spec.LogDir, 0o700); err != nil {
		return nil, fmt.Errorf("start ranks: %w", err)
	}
	t.groups++
	g.number = t.groups
	if err := t.send(ctx, agentCommand{Do: agentStart, Group: g.number, Spec: spec}); err != nil {
		return nil, fmt.Errorf("start ranks: %w", err)
	}
	go g.follow()
	for range spec.Places {
		select {
		case err := <-g.started:
			if err != nil {
				return nil, errors.Join(fmt.Errorf("start ranks: %w", err), g.kill(ctx))
			}
		case <-ctx.Done():
			if err := g.kill(ctx); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("start ranks: %w", ctx.Err())
		}
	}
	return g, nil
}

type teamGroup struct {
	team    *Team
	number  int
	agents  []int // of its ranks
	logs    string
	started chan error
	exits   chan Exit
	ended   chan struct{} // closed when all ranks have ended, or are stuck
	stuck   error         // once ended is closed: ranks that do not die
}

// follow reads the events of the group until all of its ranks have ended.
func (g *teamGroup) follow() {
	defer close(g.ended)
	defer close(g.exits)
	running := map[int]int{} // ranks by their agents
	for r, agent := range g.agents {
		running[agent] = r
	}
	started := map[int]bool{}
	for ; len(running) > 0; time.Sleep(pollAgents) {
		for agent, r := range running {
			gone := g.team.gone[agent].Load() // before its last events are read
			events, err := g.team.events(agent)
			if err != nil {
				continue // others see that the store fails, too
			}
			gone = gone || g.team.left[agent]
			ended := slices.ContainsFunc(events, g.take)
			started[agent] = started[agent] || slices.ContainsFunc(events, func(e agentEvent) bool { return e.Started && e.Group == g.number })
			switch {
			case gone && !ended && !started[agent]:
				g.started <- fmt.Errorf("the process of rank %d has ended", agent)
			case gone && !ended: // its rank died with it
				g.exits <- Exit{Rank: r, Signal: int(syscall.SIGKILL)}
			}
			if ended || gone {
				delete(running, agent)
			}
		}
	}
}

// take handles an event of the group and reports whether it is the last one of a rank.
func (g *teamGroup) take(e agentEvent) (last bool) {
	switch {
	case e.Group != g.number:
		return false
	case e.Started:
		g.started <- nil
		return false
	case e.Failed != "":
		g.started <- errors.New(e.Failed)
		return true
	case e.Stuck != "":
		g.stuck = errors.Join(g.stuck, errors.New(e.Stuck))
		return true
	case e.Exit == nil:
		return false
	}
	_ = os.WriteFile(LogFile(g.logs, e.Exit.Rank), []byte(e.Log), 0o600) // a log that is missing costs no result
	g.exits <- *e.Exit
	return true
}

func (g *teamGroup) Exits() <-chan Exit { return g.exits }

func (g *teamGroup) Dump() {
	_ = g.team.send(context.Background(), agentCommand{Do: agentDump}) // stacks are optional
}

func (g *teamGroup) Kill() error { return g.kill(context.Background()) }

// kill kills the ranks, also when ctx has ended; see Kill.
func (g *teamGroup) kill(ctx context.Context) error {
	if err := g.team.send(ctx, agentCommand{Do: agentKill}); err != nil {
		return fmt.Errorf("kill ranks: %w", err)
	}
	select {
	case <-g.ended:
		return g.stuck
	case <-time.After(agentGrace):
		return fmt.Errorf("ranks that the joined processes started are still alive %s after they were killed", agentGrace)
	}
}
