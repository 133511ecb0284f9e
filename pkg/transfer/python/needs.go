package python

import (
	"cmp"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/laneenv"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/pyhost"
	"github.com/collectivex/collectivex/pkg/pyrank"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer"
)

// Mooncake, UCCL and MoRI are the backends over these libraries.
var (
	Mooncake = opens(backend.Backend{
		Name: "mooncake", Needs: []*backend.Need{mooncake}, Loopback: true,
		Listens: "engines of Mooncake listen on all network interfaces while its ranks run: use a machine or network namespace that nobody else reaches",
	})
	UCCL = opens(backend.Backend{Name: "uccl-p2p", Needs: []*backend.Need{pyrank.Torch, pyrank.UCCL}})
	MoRI = opens(backend.Backend{Name: "mori-io", Needs: []*backend.Need{pyrank.Torch, pyrank.MoRI}})
)

func opens(b backend.Backend) backend.Backend {
	b.Open = map[plan.Family]rank.Opener{transfer.Name: opener(b)}
	return b
}

// mooncakeEngine is the extension module of Mooncake that ranks import.
const mooncakeEngine = "mooncake/engine.so"

// mooncake has a distribution for each kind of devices. The environment must not choose its lane, which
// the ranks do, and the loader must find what its module needs.
var mooncake = &backend.Need{Kind: "mooncake", Label: "Mooncake", Module: &backend.Module{
	Name: "mooncake", Install: "Mooncake (mooncake-transfer-engine-non-cuda)",
	Distributions: []string{
		"mooncake-transfer-engine-non-cuda", "mooncake-transfer-engine", "mooncake-transfer-engine-cuda13", "mooncake-transfer-engine-rocm",
		"mooncake-transfer-engine-efa", "mooncake-transfer-engine-efa-cuda13", "mooncake-transfer-engine-efa-non-cuda",
	},
	Check: func(e *pyhost.Environment) (held bool, err error) {
		return true, cmp.Or(laneenv.Mooncake.Check(), e.Unlinked(mooncakeEngine))
	},
}}
