package python

import (
	"os"

	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/laneenv"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// settings configure a library and its adapter.
type settings struct {
	title   string // of the library, for messages
	adapter string // file in adapters, without .py
	lane    string
	// openDevice opens the GPU of a rank; nil if pools are memory of the host.
	openDevice func(*rank.Session) (*gpurank.GPU, error)
	// environment is set for the library, which is not loaded yet; existing values are kept unless
	// fixed.
	environment []variable
	forced      laneenv.Variables // variables that would make the library take another lane
	// localOffsets and remoteOffsets: the library takes offsets in a pool for the places of blocks,
	// instead of addresses.
	localOffsets, remoteOffsets bool
	// batchBlocks is the maximum blocks of a batch, flyingBlocks of all batches in flight; 0 means no
	// limit.
	batchBlocks, flyingBlocks int
	// evidence begins to observe what moves the data of requests; the returned function takes the bytes
	// moved by operation. If it is nil, the library supports only the lane.
	evidence func() (func(moved map[string]int64) (runner.Lane, error), error)
}

type variable struct {
	name, value string
	fixed       bool
}

// libraries maps the names of backends in matrix/backends.yaml to their settings.
var libraries = map[string]settings{
	"mooncake": {
		title: "Mooncake", adapter: "mooncake",
		lane:        vocab.LaneTCP,
		environment: []variable{{"MC_LOG_LEVEL", "WARNING", false}, {"MC_FORCE_TCP", "1", true}}, // otherwise it logs every batch
		forced:      laneenv.Mooncake,
		// Mooncake refuses more than its queue to a peer, of some 2,048 blocks, after it has moved a part.
		batchBlocks: 512, flyingBlocks: 1024,
		evidence: countTCP,
	},
	"uccl-p2p": {
		title: "UCCL", adapter: "uccl_p2p",
		lane: vocab.LanePeer, openDevice: gpurank.OpenAny,
		remoteOffsets: true,
	},
	"mori-io": {
		title: "MoRI", adapter: "mori_io",
		lane: vocab.LanePeer, openDevice: gpurank.OpenHIP,
		localOffsets: true, remoteOffsets: true,
	},
}

// configure sets the environment of the library.
func (b *settings) configure() error {
	if err := b.forced.Check(); err != nil {
		return rank.Refused("%v", err)
	}
	for _, v := range b.environment {
		if _, ok := os.LookupEnv(v.name); ok && !v.fixed {
			continue
		}
		if err := os.Setenv(v.name, v.value); err != nil {
			return err
		}
	}
	return nil
}
