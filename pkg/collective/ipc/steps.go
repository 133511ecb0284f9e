package ipc

import (
	"context"
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/steps/device"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Steps implements stepsrunner.Library. A rank uses a single stream. Two streams may share a queue of
// the device, and would hang if one waited for a flag that depends on later work in that queue.
func (k *comm) Steps() stepsrunner.Way { return stepsrunner.Way{Path: "peer-copies", Serial: true} }

// loaded holds the steps of a rank.
type loaded struct {
	*device.Rounds
	comm    *comm
	targets []inbox // of all ranks
}

// inbox holds where a rank receives messages, by list, sender and index of the message.
type inbox [][][]stepsrunner.Place

func (k *comm) Load(ctx context.Context, all []*stepsrunner.Lowered, t numeric.Type, scratch int64) (stepsrunner.Loaded, error) {
	memory, err := k.Alloc(ctx, max(1, scratch), vocab.Unregistered)
	if err != nil {
		return nil, err
	}
	mine := make(inbox, len(all))
	for i, list := range all {
		mine[i] = make([][]stepsrunner.Place, k.session.World)
		for _, nodes := range list.Streams {
			for _, n := range nodes {
				for _, s := range n.Steps {
					if s.Kind == stepsrunner.Recv {
						mine[i][s.Peer] = append(mine[i][s.Peer], s.To)
					}
				}
			}
		}
	}
	l := &loaded{comm: k}
	if l.targets, err = rank.Gather(ctx, k.session, fmt.Sprintf("targets-%d", k.allocs), mine); err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	if l.Rounds, err = device.Load(ctx, k.device, all, t, memory, l.send); err != nil {
		return nil, err
	}
	return l, nil
}

// Run implements stepsrunner.Loaded. A failure aborts, so that no rank waits for missing messages.
func (l *loaded) Run(s accel.Stream, i int, buffers []stepsrunner.Buffers) error {
	err := l.comm.AsyncError()
	if err == nil {
		err = l.Rounds.Run(s, i, buffers)
	}
	if err != nil {
		l.comm.Abort()
	}
	return err
}

// send enqueues messages.
func (l *loaded) send(s accel.Stream, b stepsrunner.Buffers, messages []device.Message) error {
	me := l.comm.session.Rank
	var round []message
	for _, m := range messages {
		if m.Kind == stepsrunner.Recv {
			round = append(round, message{peer: m.Peer, receives: true})
		} else {
			round = append(round, message{peer: m.Peer, from: m.At, to: l.At(l.targets[m.Peer][m.List][me][m.Turn], b), bytes: m.Bytes})
		}
	}
	return l.comm.exchange(s, round)
}

// Close implements stepsrunner.Loaded. All ranks have already closed their mappings.
func (l *loaded) Close() error { return errors.Join(l.comm.free(), l.Rounds.Close()) }
