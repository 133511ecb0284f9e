package python

import (
	"os"

	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/laneenv"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// settings are how the adapter of a library uses it.
type settings struct {
	title   string // of the library, for messages
	adapter string // file in adapters, without .py
	lane    string
	// openDevice opens the GPU of a rank; nil if pools are memory of the host.
	openDevice func(*rank.Session) (*gpurank.GPU, error)
	// environment is what the library, which is not loaded yet, reads; a value that is set
	// stays if it is not fixed.
	environment []variable
	forced      laneenv.Variables // with which the library takes another lane
	// localOffsets and remoteOffsets say that the library takes places in a pool for places of
	// blocks, and not addresses.
	localOffsets, remoteOffsets bool
	// batchBlocks is the most blocks of a batch, flyingBlocks of all batches in flight; 0 is no
	// limit.
	batchBlocks, flyingBlocks int
	// evidence returns what moved the data of requests from now on, of which moved has the bytes
	// by operation. If it is nil, the library has no other way than the lane.
	evidence func() (func(moved map[string]int64) (runner.Lane, error), error)
}

type variable struct {
	name, value string
	fixed       bool
}

// libraries are those of the backends, by their names in matrix/backends.yaml.
var libraries = map[string]settings{
	"mooncake": {
		title: "Mooncake", adapter: "mooncake",
		lane:        vocab.LaneTCP,
		environment: []variable{{"MC_LOG_LEVEL", "WARNING", false}, {"MC_FORCE_TCP", "1", true}}, // else it writes down every batch
		forced:      laneenv.Mooncake,
		// Mooncake refuses what exceeds its queue to a peer, of some 2,048 blocks, after it has
		// moved some of it.
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
