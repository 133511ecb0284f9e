package launch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/sysfs"
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
	if served := <-t.served; served != nil && !errors.Is(served, context.Canceled) {
		err = errors.Join(err, served)
	}
	err = errors.Join(err, t.store.Close())
	if t.dir != "" {
		err = errors.Join(err, os.RemoveAll(t.dir))
	}
	return err
}

// Allocate implements Launcher. The machines are already allocated.
func (t *Team) Allocate(ctx context.Context) (Allocation, error) {
	a := &teamAllocation{team: t}
	if t.dir == "" {
		var err error
		if a.scratch, err = newScratch(ctx, rendezvous.Memory(), nil); err != nil {
			return nil, err
		}
	}
	return a, nil
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
	ended   chan struct{} // closed when all ranks have ended
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
		return nil
	case <-time.After(agentGrace):
		return fmt.Errorf("ranks that the joined processes started are still alive %s after they were killed", agentGrace)
	}
}
