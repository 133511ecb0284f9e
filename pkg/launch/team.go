package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// Limits of waits for processes that an external launcher started.
const (
	joinLimit  = 10 * time.Minute // until all have joined
	agentGrace = time.Minute      // until they have followed a command of rank 0
	pollAgents = 40 * time.Millisecond
)

// Member is a process that an external launcher started as one of a cell's ranks.
type Member struct {
	// Started is the place that the launcher gave this process. If it is set, Join finds out the hosts and sets Place.
	Started *Started
	Place   rank.Place
	// Store is the address of the store of all members; see StartedStore.
	Store string
	Token string // of a store over TCP
	// Task identifies what this process was asked to do. All members must have the same.
	Task string
	// Network is the operator's choice, which this node must have; zero for one node.
	Network operator.Network
	// Devices is the number of devices that this process sees; 0: it needs none.
	Devices int
	// Tell prints a line for the user. It is required with Started.
	Tell func(format string, args ...any)

	meeting meeting
}

// Team is the processes that an external launcher started as the ranks of a cell. In each of
// them an agent starts the rank of every group, so that a rank that dies costs its case only.
// The process of rank 0 leads the others; the Team is its Launcher.
type Team struct {
	member Member
	store  rendezvous.Store
	agent  *agent
	dir    string // of the store in files
	card   string // file of a meeting; removed when all have found the store
	served chan error
	serves bool // Serve was called

	places  []rank.Place // of the agents
	sent    int
	groups  int
	offsets []int64       // in the streams of the agents
	left    []bool        // by agent: it has reported its end
	gone    []atomic.Bool // by agent: its process has ended, perhaps without a report
}

var _ Launcher = (*Team)(nil)

// storeDir is the directory of the store in files, within the one that StoreVariable names.
const storeDir = "collectivex-ranks"

// Join waits until all processes of the cell have joined, and checks that they agree. The
// caller calls Serve unless it leads, and Close in any case.
func Join(ctx context.Context, m Member, s command.Starter) (_ *Team, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	if m.Started != nil {
		m.Place = rank.Place{Rank: m.Started.Rank, World: m.Started.World}
	}
	t := &Team{member: m, offsets: make([]int64, m.Place.World), left: make([]bool, m.Place.World), gone: make([]atomic.Bool, m.Place.World)}
	if m.meeting.file != "" {
		t.store, err = t.meet(ctx)
	} else {
		t.store, err = t.open(ctx)
	}
	if err != nil {
		return nil, err
	}
	joining, done := t.joining(ctx)
	if m.Started != nil {
		err = t.locate(joining)
	}
	t.agent = &agent{local: Local{Starter: s, Program: []string{program, "rank"}}, place: t.member.Place, store: t.store}
	if err == nil {
		err = t.exchange(joining)
	}
	if _, is := errors.AsType[Disagreement](err); is {
		t.leave(ctx) // not joining, which ends with the first process that leaves
	}
	done()
	if t.card != "" {
		err = errors.Join(err, os.Remove(t.card))
	}
	if err != nil {
		err = fmt.Errorf("join: %w", err)
		if t.Leads() && t.dir != "" && !errors.Is(err, os.ErrExist) {
			err = errors.Join(err, os.RemoveAll(t.dir))
		}
		return nil, errors.Join(err, t.store.Close())
	}
	if leader, is := t.store.(*rendezvous.Leader); is {
		leader.OnLeave(t.lose)
	}
	if t.Leads() {
		t.served = make(chan error, 1)
		go func() {
			_, err := t.agent.serve(ctx)
			t.served <- err
		}()
	}
	return t, nil
}

// joining returns the context in which the processes join. Each of them holds a connection to rank 0, whose context ends
// with any of these connections, so that the end of one process ends the others. The caller calls done.
func (t *Team) joining(ctx context.Context) (_ context.Context, done func()) {
	ctx, lost := context.WithCancelCause(ctx)
	end := func() { lost(nil) }
	if leader, is := t.store.(*rendezvous.Leader); is {
		leader.OnLeave(func(key string) {
			for rank := range t.gone {
				if key == joinKey(rank) {
					lost(fmt.Errorf("the process of rank %d has ended", rank))
				}
			}
		})
		return ctx, end
	}
	if hostPort, tcp := rendezvous.OverTCP(t.member.Store); tcp {
		alive, key := rendezvous.Dial(hostPort, t.member.Token), joinKey(t.member.Place.Rank) // locate changes the rank
		go func() { _, _ = alive.Get(ctx, key) }()
		return ctx, func() { end(); _ = alive.Close() }
	}
	return ctx, end
}

// joinKey is a key without a value, for which a process waits while it joins.
func joinKey(rank int) string { return fmt.Sprintf("join/life-%d", rank) }

// lose notes the end of the process that waited for this key.
func (t *Team) lose(key string) {
	for agent := range t.gone {
		if key == lifeKey(agent) {
			t.gone[agent].Store(true)
		}
	}
}

func (t *Team) open(ctx context.Context) (rendezvous.Store, error) {
	m := t.member
	hostPort, tcp := rendezvous.OverTCP(m.Store)
	if !tcp {
		above, err := filepath.Abs(m.Store)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", StoreVariable, err)
		}
		t.dir = filepath.Join(above, storeDir)
		if err := ownDirectory(t.dir, StoreVariable); err != nil {
			return nil, err
		}
		return rendezvous.OpenFile(t.dir)
	}
	if t.Leads() {
		leader, err := rendezvous.LeadAt(hostPort, m.Token, m.Place.World)
		if err != nil {
			return nil, fmt.Errorf("rank 0 cannot listen at %s: %w", m.Store, err)
		}
		return leader, nil
	}
	ctx, stop := context.WithTimeout(ctx, joinLimit)
	defer stop()
	client, err := rendezvous.DialUp(ctx, hostPort, m.Token)
	if err != nil {
		return nil, fmt.Errorf("rank 0 does not answer at %s within %s: %w", m.Store, joinLimit, err)
	}
	return client, nil
}

// leave makes the process of rank 0, whose store ends with it, wait until the others, which disagree with it, no longer
// need the store.
func (t *Team) leave(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, joinLimit)
	defer stop()
	key := func(rank int) string { return fmt.Sprintf("leave/rank-%d", rank) }
	if !t.Leads() {
		_ = t.store.Put(ctx, key(t.member.Place.Rank), nil)
		return
	}
	for r := 1; r < t.member.Place.World; r++ {
		_, _ = t.store.Get(ctx, key(r))
	}
}

// Leads reports whether this is the process of rank 0.
func (t *Team) Leads() bool { return t.member.Place.Rank == 0 }

// Nodes returns the number of hosts.
func (t *Team) Nodes() int { return t.places[len(t.places)-1].Node + 1 }

// LocalRank returns the number of this process on its host.
func (t *Team) LocalRank() int { return t.member.Place.LocalRank }

// Serve starts the ranks of this process until the process of rank 0 closes its Team, and returns the exit code that it
// passes to Close.
func (t *Team) Serve(ctx context.Context) (code int, err error) {
	t.serves = true
	if hostPort, tcp := rendezvous.OverTCP(t.member.Store); tcp {
		alive := rendezvous.Dial(hostPort, t.member.Token) // a connection that only waits, so that rank 0 sees its end
		defer alive.Close()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		go func() { _, _ = alive.Get(ctx, lifeKey(t.member.Place.Rank)) }()
	}
	if code, err = t.agent.serve(ctx); err != nil && ctx.Err() == nil {
		err = fmt.Errorf("rank 0 has ended, or cannot be reached: %w", err)
	}
	return code, err
}

// Listen returns the host at which the stores of groups are served over TCP; empty for stores
// in files.
func (t *Team) Listen() string {
	if t.dir != "" {
		return ""
	}
	hostPort, _ := rendezvous.OverTCP(t.member.Store)
	host, _, _ := net.SplitHostPort(hostPort) // StartedStore has checked it
	return host
}

// send sends a command to all agents.
func (t *Team) send(ctx context.Context, c agentCommand) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	t.sent++
	return t.store.Put(context.WithoutCancel(ctx), agentCommandKey(t.sent), raw)
}

// events returns the events of an agent since the last call.
func (t *Team) events(agent int) ([]agentEvent, error) {
	lines, next, err := t.store.Records(agentStream(agent), t.offsets[agent])
	if err != nil {
		return nil, err
	}
	t.offsets[agent] = next
	events := make([]agentEvent, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal(line, &events[i]); err != nil {
			return nil, fmt.Errorf("agent %d: %w", agent, err)
		}
		t.left[agent] = t.left[agent] || events[i].Left
	}
	return events, nil
}

// Close makes the other processes end with the exit code and removes the store, if this is the process of rank 0.
// Otherwise, it tells rank 0 that this process leaves, unless Serve has.
func (t *Team) Close(ctx context.Context, code int) error {
	if !t.Leads() {
		var err error
		if !t.serves {
			err = t.agent.report(agentEvent{Left: true})
		}
		return errors.Join(err, t.store.Close())
	}
	err := t.send(ctx, agentCommand{Do: agentStop, Code: code})
	for end := time.Now().Add(agentGrace); err == nil && slices.Contains(t.left, false) && time.Now().Before(end); time.Sleep(pollAgents) {
		for agent, left := range t.left {
			if !left {
				gone := t.gone[agent].Load()
				_, failed := t.events(agent)
				err = errors.Join(err, failed)
				t.left[agent] = t.left[agent] || gone
			}
		}
	}
	var behind []int
	for agent, left := range t.left {
		if !left {
			behind = append(behind, agent)
		}
	}
	if err == nil && len(behind) > 0 {
		err = fmt.Errorf("the processes of ranks %s do not end within %s", rendezvous.Ranks(behind), agentGrace)
	}
	served := context.Canceled
	if t.left[t.member.Place.Rank] {
		served = <-t.served
	} else {
		select {
		case served = <-t.served: // it failed
		default: // it may wait without end
		}
	}
	if served != nil && !errors.Is(served, context.Canceled) {
		err = errors.Join(err, served)
	}
	err = errors.Join(err, t.store.Close())
	if t.dir != "" {
		err = errors.Join(err, os.RemoveAll(t.dir))
	}
	return err
}
