package python

import (
	"os"
	"slices"

	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/laneenv"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// settings configure a library and its adapter for a lane.
type settings struct {
	title   string // of the library, for messages
	adapter string // file in adapters, without .py
	lane    string
	// openDevice opens the GPU of a rank; nil if pools are memory of the host.
	openDevice func(*rank.Session) (*gpurank.GPU, error)
	// environment is set for the library, which is not loaded yet; existing values are kept unless
	// fixed.
	environment []variable
	// removed lists variables that images and clusters set for other programs, and that would make the library
	// take another lane.
	removed []string
	forced  laneenv.Variables // variables that would make the library take another lane
	// localOffsets and remoteOffsets: the library takes offsets in a pool for the places of blocks,
	// instead of addresses.
	localOffsets, remoteOffsets bool
	// batchBlocks is the maximum blocks of a batch, flyingBlocks of all batches in flight; 0 means no
	// limit. maxBlock is the maximum bytes of a block: larger ones are cut.
	batchBlocks, flyingBlocks int
	maxBlock                  int64
	// evidence begins to observe what moves the data of requests; the returned function takes the bytes
	// moved by operation. If it is nil, the library supports only the lane.
	evidence func() (func(moved map[string]int64) (runner.Lane, error), error)
}

type variable struct {
	name, value string
	fixed       bool
}

// mooncakeBetweenNodes keeps Mooncake to the adapters: without MC_FORCE_HCA it falls back to TCP if it finds none, and
// over NVLink or XGMI it claims memory of another node that it cannot open. A transfer over a crowded network may
// take longer than its default of 30 s.
var mooncakeBetweenNodes = []variable{
	{"MC_LOG_LEVEL", "WARNING", false},
	{"MC_FORCE_HCA", "1", true},
	{"MC_USE_NVLINK_IPC", "0", true},
	{"MC_USE_HIP_IPC", "0", true},
	{"MC_TRANSFER_TIMEOUT", "120", false},
}

// libraries maps the names of backends in matrix/backends.yaml to their settings by lane.
var libraries = map[string][]settings{
	"mooncake": {{
		title: "Mooncake", adapter: "mooncake",
		lane:        vocab.LaneTCP,
		environment: []variable{{"MC_LOG_LEVEL", "WARNING", false}, {"MC_FORCE_TCP", "1", true}}, // otherwise it logs every batch
		forced:      laneenv.Mooncake,
		// Mooncake refuses more than its queue to a peer, of some 2,048 blocks, after it has moved a part.
		batchBlocks: 512, flyingBlocks: 1024,
		evidence: countTCP,
	}, {
		title: "Mooncake", adapter: "mooncake",
		lane: vocab.LaneRDMA, openDevice: gpurank.OpenAny,
		environment: mooncakeBetweenNodes, removed: []string{"MC_FORCE_MNNVL"},
		forced:      laneenv.Variables{Library: laneenv.Mooncake.Library, Names: []string{"MC_FORCE_TCP", "MC_INTRANODE_NVLINK"}},
		batchBlocks: 8192,
		evidence:    countRDMA,
	}},
	"uccl-p2p": {{
		title: "UCCL", adapter: "uccl_p2p",
		lane: vocab.LanePeer, openDevice: gpurank.OpenAny,
		remoteOffsets: true,
	}},
	"mori-io": {{
		title: "MoRI", adapter: "mori_io",
		lane: vocab.LanePeer, openDevice: gpurank.OpenHIP,
		localOffsets: true, remoteOffsets: true,
	}, {
		title: "MoRI", adapter: "mori_io",
		lane: vocab.LaneRDMA, openDevice: gpurank.OpenHIP,
		environment:  []variable{{"MORI_DISABLE_AUTO_XGMI", "1", true}}, // its fallback if it finds no adapter
		localOffsets: true, remoteOffsets: true,
		batchBlocks: 16384, maxBlock: 1 << 30, // adapters refuse larger work requests
		evidence: countRDMA,
	}},
}

// settingsOf returns the settings of a backend for a lane.
func settingsOf(backend, lane string) (settings, error) {
	all := libraries[backend]
	i := slices.IndexFunc(all, func(s settings) bool { return s.lane == lane })
	if i < 0 {
		return settings{}, rank.Refused("backend %s has no lane %s", backend, lane)
	}
	return all[i], nil
}

// configure sets the environment of the library.
func (b *settings) configure() error {
	if err := b.forced.Check(); err != nil {
		return rank.Refused("%v", err)
	}
	for _, name := range b.removed {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
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
