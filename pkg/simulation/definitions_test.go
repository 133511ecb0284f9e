package simulation_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/simulation"
)

// simulating is the shipped definitions with a suite and the file of a model.
func simulating(t *testing.T, block, model string) (*catalog.Catalog, error) {
	t.Helper()
	defs := plantest.Definitions()
	defs["suites/mine.yaml"] = &fstest.MapFile{Data: []byte("platforms: [local]\nsampling: smoke\nsimulation:\n" + block)}
	defs["models/host.yaml"] = &fstest.MapFile{Data: []byte(model)}
	return catalog.Load(defs)
}

const (
	simulated = `  - backends: [simulator]
    op: all_gather
    algorithms: [ring]
    worlds: [4]
    topologies: [full]
    models:
      links: {origin: a datasheet, sharing: fifo, engines: 2, latency_ns: 500, ns_per_byte: 0.5, overhead_ns: 3, reduce_ns_per_byte: 0.25, network_latency_ns: 7, network_ns_per_byte: 0.75, network_engines: 3, issue_ns: 11}
      host: {file: models/host.yaml}
    sizes: {from: 4KiB, to: 4KiB, factor: 2}
`
	measuredModel = `origin: two ranks of a host
sharing: unloaded
engines: 1
pairs:
    - src: 0
      dst: 1
      classes:
        - points: [{bytes: 4096, ns: 1000.5}]
`
)

// A suite has models in its own text and in files such as 'bench p2p --model' writes.
func TestModels(t *testing.T) {
	cat, err := simulating(t, simulated, measuredModel)
	require.NoError(t, err)
	models := cat.Suite("mine").Blocks["simulation"][0].(*simulation.SuiteBlock).Models
	require.Equal(t, "links", models[0].Name)
	require.Equal(t, simulate.Model{
		Origin: "a datasheet", Sharing: "fifo", Engines: 2, Latency: 500, PerByte: 0.5, Overhead: 3, ReduceByte: 0.25,
		NetworkLatency: 7, NetworkByte: 0.75, NetworkEngines: 3, Issue: 11,
	}, models[0].Costs())
	require.Equal(t, "host", models[1].Name)
	require.Equal(t, simulate.Model{
		Origin: "two ranks of a host", Sharing: "unloaded", Engines: 1,
		Pairs: []simulate.Pair{{Src: 0, Dst: 1, Classes: []simulate.Class{{Points: []simulate.Point{{Bytes: 4096, Nanoseconds: 1000.5}}}}}},
	}, models[1].Costs())
	require.Contains(t, cat.Coverage(), catalog.Coverage{SKU: "local", Backend: "simulator", Mode: "simulations", World: 4, Runs: true})
}

// A width is used if one schedule or topology of a block has rows.
func TestWidthsOfBlocks(t *testing.T) {
	wide := strings.NewReplacer("worlds:", "width: 2\n    worlds:", "      host: {file: models/host.yaml}\n", "").Replace(simulated)
	for _, used := range [][2]string{{"[ring]", "[ring, hierarchical_sliced]"}, {"[full]", "[full, torus]"}} {
		_, err := simulating(t, strings.Replace(wide, used[0], used[1], 1), measuredModel)
		require.NoError(t, err)
	}
	measured := `schedule:
  - backends: [host]
    op: all_reduce
    algorithms: [ring, torus_2d]
    width: 2
    segments: 2
    dtypes: [float]
    sizes: {from: 64, to: 64, factor: 2}
    placements: [in_place]
    modes: [pipelined]
    buffers: [warm]
`
	_, err := simulating(t, simulated+measured, measuredModel)
	require.ErrorContains(t, err, "suites/mine.yaml:18:15: segments 2 ")
	_, err = simulating(t, simulated+strings.Replace(measured, ", torus_2d", "", 1), measuredModel)
	require.ErrorContains(t, err, "suites/mine.yaml:17:12: width 2 ")
}

func TestDiagnostics(t *testing.T) {
	for _, tt := range []struct{ name, old, new, model, want string }{
		{"schedule", "[ring]", "[rung]", measuredModel, `suites/mine.yaml:6:18: … "rung"`},
		{"width", "worlds:", "width: 2\n    worlds:", measuredModel, `suites/mine.yaml:7:12: width 2 `},
		{"segments", "worlds:", "segments: 2\n    worlds:", measuredModel, `suites/mine.yaml:7:15: segments 2 `},
		{"topology", "[full]", "[cube]", measuredModel, `suites/mine.yaml:8:18: no backend of this block has the topology "cube"`},
		{"world", "[4]", "[1]", measuredModel, `suites/mine.yaml:7:14: an element of "worlds" must be at least 2, not 1`},
		{"backend", "[simulator]", "[host]", measuredModel, `suites/mine.yaml:4:16: backend "host" has no simulation block`},
		{"key", "engines", "motors", measuredModel, `suites/mine.yaml:10:51: unknown key "motors"; choose from`},
		{"costs", "latency_ns: 500", "latency_ns: -1", measuredModel, `suites/mine.yaml:10:7: model "links": latency_ns: -1`},
		{"sharing", "fifo", "lifo", measuredModel, `suites/mine.yaml:10:7: model "links": sharing "lifo"`},
		{"no model", "models/host.yaml", "models/hos.yaml", measuredModel, `suites/mine.yaml:11:20: model "models/hos.yaml": file does not exist`},
		{"outside", "models/host.yaml", "../host.yaml", measuredModel, `suites/mine.yaml:11:20: "../host.yaml"`},
		{"both", "{file: ", "{engines: 1, file: ", measuredModel, `suites/mine.yaml:11:7: model "host" has costs and a file: give only one of them`},
		{"measured on links", "[full]", "[full, ring]", measuredModel, `suites/mine.yaml:11:7: model "host" has measured times between ranks, which support only the topology full`},
		{
			"no network", "[full]\n    models:\n      links: {", "[hosts]\n    models:\n      inside: {sharing: fifo, latency_ns: 5}\n      links: {", measuredModel,
			`suites/mine.yaml:10:7: model "inside" in topology hosts: … network_latency_ns`,
		},
		{"damaged", "", "", strings.Replace(measuredModel, "1000.5", "-1", 1), `suites/mine.yaml:11:20: models/host.yaml: pair 0 to 1: -1 ns`},
		{"private", "", "", strings.Replace(measuredModel, "two ranks of a host", "/home/me/times", 1), `suites/mine.yaml:11:20: "/home/me/times" is copied into documents, which could then not be published`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := simulating(t, strings.Replace(simulated, tt.old, tt.new, 1), tt.model)
			require.Error(t, err)
			wording.Has(t, err.Error(), tt.want)
		})
	}
}
