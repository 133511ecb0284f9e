package transfer_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// TestHandles: pools are opened by handles on the devices that the backend names, and elsewhere the
// plan says why not. Cases of the first handle say nothing of it.
func TestHandles(t *testing.T) {
	m, err := planner.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{"suite": {"kv-transfer"}, "sku": {"h200-dgxc", "mi300x-tw"}, "backend": {"ipc"}}}, planner.Machine{})
	require.NoError(t, err)
	lacks := map[string]string{}
	for _, q := range m.RequestedOther {
		if transfer.Of(&q.Case).Handle == vocab.HandleVMM {
			_, lacks[q.Case.CaseID] = q.Why()
		} else {
			require.Empty(t, transfer.Of(&q.Case).Handle)
			require.Equal(t, plan.Runnable, q.Disposition)
		}
	}
	require.Equal(t, map[string]string{
		"h200-dgxc-ipc-kv-mla-peer-vmm-xfer-ep2-paged-bf16": "",
		"mi300x-tw-ipc-kv-mla-peer-vmm-xfer-ep2-paged-bf16": "backend ipc opens pools by handle vmm on devices of nvidia only",
	}, lacks)
}

// TestMooncakeBetweenDevices: the plan says why Mooncake moves no memory of devices.
func TestMooncakeBetweenDevices(t *testing.T) {
	m, err := planner.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{"suite": {"kv-transfer"}, "sku": {"h200-dgxc"}, "backend": {"mooncake"}}}, planner.Machine{})
	require.NoError(t, err)
	require.Len(t, m.RequestedOther, 2, "contiguous and paged")
	for _, q := range m.RequestedOther {
		require.Equal(t, plan.Unsupported, q.Disposition)
		_, detail := q.Why()
		require.Contains(t, detail, "nvlink_intra")
	}
}

// The cells between nodes are those of CollectiveX, with its times: each case has a cell to itself. A case over
// NVLink needs no RDMA devices, nor does Mooncake, which takes all and is not kept to NVLink; mi355x runs it in an
// image of its own.
func TestCellsBetweenNodes(t *testing.T) {
	m := plantest.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{planner.FilterSuite: {transfer.SuiteKV}}})
	type times struct {
		minutes, seconds int
		rdma             bool
	}
	got := map[string]times{}
	for _, c := range m.Include {
		if c.Nodes == 1 {
			continue
		}
		require.Len(t, c.CaseIDs, 1)
		cases, err := m.Cases(c)
		require.NoError(t, err)
		_, nvlink := cases[0].Case.Env["MC_FORCE_MNNVL"]
		require.Equal(t, strings.HasPrefix(c.SKU, "gb") && c.Backend != "mooncake", nvlink, c.ID)
		got[c.ID] = times{c.Minutes, cases[0].BudgetSeconds, slices.Contains(c.Launch.Requires, "network.rdma_devices")}
		require.Equal(t, c.ID == "mi355x-mooncake-kv-rdma-n2", strings.HasPrefix(c.Image, "rocm/atom-dev:"), c.ID)
	}
	require.Equal(t, map[string]times{
		"h200-dgxc-nixl-kv-rdma-n2": {210, 11400, true}, "h200-dgxc-mooncake-kv-rdma-n2": {210, 11400, false},
		"b200-nscale-nixl-kv-rdma-n2": {210, 11400, true}, "b200-nscale-mooncake-kv-rdma-n2": {210, 11400, false},
		"b300-nixl-kv-rdma-n2": {210, 11400, true}, "b300-mooncake-kv-rdma-n2": {210, 11400, false},
		"gb200-nixl-kv-rdma-n2": {460, 25200, true}, "gb200-nixl-kv-mnnvl-n2": {460, 25200, false}, "gb200-mooncake-kv-rdma-n2": {460, 25200, false},
		"gb300-nixl-kv-rdma-n2": {690, 39600, true}, "gb300-nixl-kv-mnnvl-n2": {690, 39600, false}, "gb300-mooncake-kv-rdma-n2": {690, 39600, false},
		"mi355x-mooncake-kv-rdma-n2": {210, 11400, false}, "mi355x-mori-io-kv-rdma-n2": {210, 11400, true},
	}, got)
}

// What a platform restricts must be possible, and a case that asks for more is unsupported.
func TestRestrictionsOfAPlatform(t *testing.T) {
	defs := plantest.Definitions()
	const platform, suite = "platforms/mi355x.yaml", "suites/kv-transfer.yaml"
	edit := func(file, old, changed string) fstest.MapFS {
		out := maps.Clone(defs)
		require.Contains(t, string(defs[file].Data), old)
		out[file] = &fstest.MapFile{Data: []byte(strings.Replace(string(defs[file].Data), old, changed, 1))}
		return out
	}
	for want, files := range map[string]fstest.MapFS{
		`backend "mori-io" has no device_filter`:    edit(platform, "    transfer: [peer, rdma]\n", "    transfer: {lanes: [peer, rdma], device: rdma0}\n"),
		`unknown transfer op "pusch"`:               edit(platform, "ops: [push]", "ops: [pusch]"),
		`"transfer" lacks the key "lanes"`:          edit(platform, "lanes: [rdma], ops: [push]", "ops: [push]"),
		`image "rocm/atom-dev@sha256" has a digest`: edit(platform, "rocm/atom-dev:nightly_202606101403", "rocm/atom-dev@sha256"),
	} {
		_, err := catalog.Load(files)
		require.ErrorContains(t, err, want)
	}
	small, err := catalog.Load(edit(platform, "pool_budget: 20GiB", "pool_budget: 1GiB"))
	require.NoError(t, err)
	only := planner.Filters{Only: planner.Only{planner.FilterSuite: {transfer.SuiteKV}, planner.FilterSKU: {"mi355x"}, planner.FilterBackend: {"mooncake"}}}
	d := resulttest.New(plantest.Resolve(small, only).RequestedCases[0].Case, resulttest.Attempt()).(*transfer.Document)
	require.Len(t, d.Workload.Dropped, 26)
	require.Equal(t, "refused: 781166592 bytes, more than 536870912", d.Workload.Dropped[0].Reason.String())

	cat, err := catalog.Load(edit(suite, "    batches: [1, 2, 4, 8, 16, 32]\n", "    batches: [1, 2, 4, 8, 16, 32]\n    ops: [pull]\n"))
	require.NoError(t, err)
	m := plantest.Resolve(cat, only)
	require.Len(t, m.RequestedCases, 1)
	_, detail := m.RequestedCases[0].Why()
	require.Equal(t, "platform mi355x runs backend mooncake with the operations [push] only", detail)
}

// direct describes one transfer over a lane.
func direct(lane string) planner.Direct {
	cat := plantest.Shipped()
	block := transfer.New(transfer.CacheOf(cat, "kv-tiny"), catalog.SamplingOf[transfer.Sampling](cat.SamplingProfile("smoke")))
	block.Mode, block.Routing, block.ISLLadder, block.PageTokens, block.BatchSizes, block.Ops = lane, transfer.Paged, plan.Ladder{64}, plan.Ladder{16}, plan.Ladder{1}, transfer.Ops()
	return planner.Direct{Suite: "bench", Backend: "nixl", World: 2, Repeats: 1, Cases: []plan.Case{{
		Family: transfer.Name, Precision: "bf16", Sampling: "smoke", Contract: transfer.Contract, Block: block,
	}}}
}

// A transfer is placed where its lane is: between processes of the host, whatever devices are
// here, or between devices, if there are any.
func TestDirectPlacesATransferByItsLane(t *testing.T) {
	machine := planner.Machine{CPU: "amd64", GPUs: &planner.GPUs{Vendor: "nvidia", Product: "h200", Arch: "sm90", Transport: "nvlink", Count: 2, Backends: []string{"nixl"}}}
	for lane, sku := range map[string]string{vocab.LaneTCP: "local", vocab.LanePeer: "local-h200"} {
		m, err := direct(lane).Resolve(plantest.Shipped(), machine)
		require.NoError(t, err)
		require.Equal(t, sku, m.RequestedOther[0].SKU)
	}
	_, err := direct(vocab.LanePeer).Resolve(plantest.Shipped(), planner.Machine{CPU: "amd64"})
	require.ErrorIs(t, err, planner.ErrCannot)
	require.ErrorContains(t, err, "lane peer of backend nixl joins the memory of GPUs, and no GPU here runs it")
}

// A sweep of one machine answers what needs two with the reason, instead of ranks that cannot start, and so does a
// benchmark.
func TestOneMachineHasNoLaneBetweenTwo(t *testing.T) {
	machine := planner.Machine{CPU: "amd64", GPUs: &planner.GPUs{Vendor: "nvidia", Product: "h200", Arch: "sm90", Transport: "nvlink", Count: 2, Backends: []string{"nixl"}}}
	m, err := planner.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{
		planner.FilterSuite: {"kv-transfer"}, planner.FilterSKU: {"local-h200"}, planner.FilterBackend: {"nixl"},
	}}, machine)
	require.NoError(t, err)
	lanes := map[string]int{}
	for q := range m.Requested() {
		lane := transfer.Of(&q.Case).Mode
		lanes[lane]++
		if _, detail := q.Why(); vocab.BetweenNodes(lane) {
			require.Equal(t, plan.Unsupported, q.Disposition, q.Case.CaseID)
			require.Equal(t, "the case needs 2 machines, and this is one", detail)
		} else {
			require.NotContains(t, detail, "machines")
		}
	}
	require.NotZero(t, lanes[vocab.LaneRDMA])
	for _, c := range m.Include {
		require.Equal(t, 1, c.Nodes)
	}
	_, err = direct(vocab.LaneRDMA).Resolve(plantest.Shipped(), machine)
	require.ErrorIs(t, err, planner.ErrCannot)
	require.ErrorContains(t, err, "the case needs 2 machines, and this is one")
}
