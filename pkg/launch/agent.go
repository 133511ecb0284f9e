package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// What a command can ask an agent to do.
const (
	agentStart = "start"
	agentDump  = "dump"
	agentKill  = "kill"
	agentStop  = "stop"
)

// agentCommand is what all agents read, one after the other.
type agentCommand struct {
	Do    string `json:"do"`
	Group int    `json:"group,omitempty"` // to start, from 1
	Spec  Spec   `json:"spec,omitzero"`
	Code  int    `json:"code,omitempty"` // exit code to stop with
}

// agentEvent is what an agent appends to its stream.
type agentEvent struct {
	Group   int    `json:"group,omitempty"`
	Started bool   `json:"started,omitempty"`
	Failed  string `json:"failed,omitempty"` // why its rank did not start
	Exit    *Exit  `json:"exit,omitempty"`
	Log     string `json:"log,omitempty"`   // the end of what the rank wrote
	Stuck   string `json:"stuck,omitempty"` // why its rank counts as ended although it was killed in vain
	Left    bool   `json:"left,omitempty"`  // nothing follows
}

func agentCommandKey(n int) string { return fmt.Sprintf("agents/order-%06d", n) }
func agentStream(agent int) string { return fmt.Sprintf("agents/agent-%d", agent) }

// lifeKey is a key without a value. The process of an agent waits for it until it ends, so that rank 0 notices that end.
func lifeKey(agent int) string { return fmt.Sprintf("agents/life-%d", agent) }

// agent starts the ranks of one place of a Team: one of each group that has a rank there. It
// runs in a process of an external launcher, which outlives the ranks.
type agent struct {
	local Local
	place rank.Place
	store rendezvous.Store

	mu       sync.Mutex    // of the stream
	rank     Group         // of one rank; nil if none runs
	group    int           // of the rank
	reported chan struct{} // closed when the end of the rank is in the stream
}

// serve follows the commands until the last one, whose exit code it returns, or until ctx ends. No
// rank is left when it returns, but for one that does not die.
func (a *agent) serve(ctx context.Context) (code int, err error) {
	defer func() {
		a.kill()
		_ = a.report(agentEvent{Left: true}) // rank 0 may end as soon as it has read this, without an answer
	}()
	for n := 1; ; n++ {
		raw, err := a.store.Get(ctx, agentCommandKey(n))
		if err != nil {
			return 0, fmt.Errorf("wait for rank 0: %w", err)
		}
		var c agentCommand
		if err := json.Unmarshal(raw, &c); err != nil {
			return 0, fmt.Errorf("%s: %w", agentCommandKey(n), err)
		}
		switch c.Do {
		case agentStart:
			err = a.start(ctx, c)
		case agentDump:
			if a.rank != nil {
				a.rank.Dump()
			}
		case agentKill:
			a.kill()
		case agentStop:
			return c.Code, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// start starts the rank of a group at the agent's place, if there is one.
func (a *agent) start(ctx context.Context, c agentCommand) error {
	c.Spec.Places = slices.DeleteFunc(c.Spec.Places, func(p rank.Place) bool { return p.Node != a.place.Node || p.LocalRank != a.place.LocalRank })
	if len(c.Spec.Places) == 0 {
		return nil
	}
	log := &tail{}
	started, err := a.local.start(ctx, c.Spec, func(int) (io.WriteCloser, error) { return log, nil })
	if err != nil {
		return a.report(agentEvent{Group: c.Group, Failed: err.Error()})
	}
	if err := a.report(agentEvent{Group: c.Group, Started: true}); err != nil {
		return errors.Join(err, started.Kill())
	}
	reported := make(chan struct{})
	a.rank, a.group, a.reported = started, c.Group, reported
	go func() {
		defer close(reported)
		for e := range started.Exits() {
			_ = a.report(agentEvent{Group: c.Group, Exit: &e, Log: log.String()})
		}
	}()
	return nil
}

// kill kills the rank, if there is one, and waits until its end is in the stream, or that it does not die.
func (a *agent) kill() {
	if a.rank == nil {
		return
	}
	if err := a.rank.Kill(); err != nil {
		_ = a.report(agentEvent{Group: a.group, Stuck: err.Error()})
	} else {
		<-a.reported
	}
	a.rank = nil
}

// report appends an event to the agent's stream.
func (a *agent) report(e agentEvent) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.store.Append(agentStream(a.place.Rank), raw)
}

// tailBytes is how much of the end of a rank's output is kept.
const tailBytes = 1 << 20

type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytes; over > tailBytes {
		t.text = append([]byte(nil), t.text[over:]...)
	}
	return len(p), nil
}

func (*tail) Close() error { return nil }

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text[max(0, len(t.text)-tailBytes):])
}
