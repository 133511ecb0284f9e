package nccl

import (
	"context"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/steps/device"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

var _ stepsrunner.Library = (*comm)(nil)

// Steps implements stepsrunner.Library. Each round is a group call of ncclSend and ncclRecv. A rank uses
// one stream, since streams of one communicator would not run concurrently, and NCCL does not guarantee
// progress on two communicators at the same time.
func (k *comm) Steps() stepsrunner.Way {
	return stepsrunner.Way{Path: nccl.GroupedSendRecv, Serial: true}
}

func (k *comm) Load(ctx context.Context, all []*stepsrunner.Lowered, t numeric.Type, scratch int64) (stepsrunner.Loaded, error) {
	if err := k.c.Library().Need("ncclSend", "ncclRecv"); err != nil {
		return nil, rank.Coded(result.ReasonNoSymbol, err)
	}
	memory, err := k.Alloc(ctx, max(1, scratch), vocab.Unregistered)
	if err != nil {
		return nil, err
	}
	var group []nccl.Message // reused by all rounds
	return device.Load(ctx, k.device, all, t, memory, func(s accel.Stream, _ stepsrunner.Buffers, messages []device.Message) error {
		group = group[:0]
		for _, m := range messages {
			group = append(group, nccl.Message{Peer: int32(m.Peer), Sends: m.Kind == stepsrunner.Send, Bytes: m.Bytes, At: m.At})
		}
		return gpurank.NCCLError(k.c.SendRecv(s, group))
	})
}
