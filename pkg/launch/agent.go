package launch

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"syscall"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// What an agent is told to do.
const (
	agentStart = "start"
	agentDump  = "dump"
	agentKill  = "kill"
	agentStop  = "stop"
)

// agentOrder is what all agents read, one after the other.
type agentOrder struct {
	Do    string `json:"do"`
	Group int    `json:"group,omitempty"` // to start, from 1
	Spec  Spec   `json:"spec,omitzero"`
}

// agentEvent is what an agent appends to its stream.
type agentEvent struct {
	Group   int    `json:"group,omitempty"`
	Started bool   `json:"started,omitempty"`
	Failed  string `json:"failed,omitempty"` // why its rank did not start
	Exit    *Exit  `json:"exit,omitempty"`
	Log     string `json:"log,omitempty"`  // the end of what the rank wrote
	Left    bool   `json:"left,omitempty"` // nothing follows
}

func agentOrderKey(n int) string   { return fmt.Sprintf("agents/order-%06d", n) }
func agentStream(agent int) string { return fmt.Sprintf("agents/agent-%d", agent) }

// agent starts the ranks of one place of a Team: one of each group that has a rank there. It
// is a process that somebody else started, which outlives the ranks.
type agent struct {
	starter command.Starter
	program []string // starts a rank; its own flags follow
	place   rank.Place
	store   rendezvous.Store

	mu    sync.Mutex // of the stream
	child command.Process
	ended chan struct{} // closed when child has ended
}

// serve follows the orders until the last one, or until ctx ends. No rank is left when it
// returns.
func (a *agent) serve(ctx context.Context) (err error) {
	defer func() {
		a.kill()
		if untold := a.tell(agentEvent{Left: true}); err == nil {
			err = untold
		}
	}()
	for n := 1; ; n++ {
		raw, err := a.store.Get(ctx, agentOrderKey(n))
		if err != nil {
			return fmt.Errorf("wait for rank 0: %w", err)
		}
		var o agentOrder
		if err := json.Unmarshal(raw, &o); err != nil {
			return fmt.Errorf("%s: %w", agentOrderKey(n), err)
		}
		switch o.Do {
		case agentStart:
			err = a.start(o)
		case agentDump:
			if a.child != nil {
				a.child.Signal(syscall.SIGQUIT)
			}
		case agentKill:
			a.kill()
		case agentStop:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// start starts the rank of a group at the agent's place, if it has one.
func (a *agent) start(o agentOrder) error {
	for _, p := range o.Spec.Places {
		if p.Node != a.place.Node || p.LocalRank != a.place.LocalRank {
			continue
		}
		log := &tail{}
		c := Local{Program: a.program}.command(o.Spec, p)
		c.Stdout, c.Stderr = log, log
		child, err := a.starter.Start(c)
		if err != nil {
			return a.tell(agentEvent{Group: o.Group, Failed: err.Error()})
		}
		if err := a.tell(agentEvent{Group: o.Group, Started: true}); err != nil {
			child.Kill()
			return err
		}
		ended := make(chan struct{})
		a.child, a.ended = child, ended
		go func() {
			defer close(ended)
			status := child.Wait()
			_ = a.tell(agentEvent{Group: o.Group, Exit: &Exit{Rank: p.Rank, Code: status.Code, Signal: int(status.Signal)}, Log: log.String()})
		}()
	}
	return nil
}

// kill ends the rank, if there is one, and waits until it has told so.
func (a *agent) kill() {
	if a.child != nil {
		a.child.Kill()
		<-a.ended
		a.child = nil
	}
}

// tell appends an event to the agent's stream.
func (a *agent) tell(e agentEvent) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.store.Append(agentStream(a.place.Rank), raw)
}

// tailBytes is how much of its output a rank may leave, at most.
const tailBytes = 1 << 20

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytes; over > tailBytes {
		t.text = append([]byte(nil), t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text[max(0, len(t.text)-tailBytes):])
}
