package run

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

func TestAnotherDeviceDoesNotFit(t *testing.T) {
	for _, tt := range []struct {
		vendor, product, arch, reported, reportedArch string
		want                                          bool
	}{
		{"nvidia", "h200", "sm_90", "NVIDIA H200", "sm_90", true},
		{"nvidia", "h200", "sm_90", "NVIDIA H200", "sm_100", false},
		{"nvidia", "h200", "sm_90", "NVIDIA H20", "sm_90", false},
		{"nvidia", "b200", "sm_100", "NVIDIA GB200", "sm_100", false},
		{"amd", "mi355x", "gfx950", "AMD Instinct MI355X", "gfx950:sramecc+:xnack-", true},
		{"amd", "mi355x", "gfx950", "AMD Instinct MI355X", "gfx942:sramecc+:xnack-", false},
		{"amd", "mi355x", "gfx950", "", "", false},
		{"host", "host", "host", "Some Processor", "x86-64", true},
	} {
		err := fits(plan.Cell{SKU: "sku", Vendor: tt.vendor, Product: tt.product, DeviceArch: tt.arch}, tt.reported, tt.reportedArch)
		require.Equal(t, tt.want, err == nil, tt)
	}
	require.EqualError(t, fits(plan.Cell{SKU: "h200-dgxc", Vendor: "nvidia", Product: "h200", DeviceArch: "sm_90"}, "NVIDIA H20", "sm_90"),
		`device is "NVIDIA H20" (sm_90), but platform h200-dgxc has h200 (sm_90)`)
}

func TestAdmit(t *testing.T) {
	h200 := plan.Cell{SKU: "h200-dgxc", Vendor: "nvidia", Product: "h200", DeviceArch: "sm_90", Launcher: "bare", Runner: "h200-pool"}
	host := plan.Cell{SKU: "local", Vendor: "host", Product: "host", DeviceArch: "host", Launcher: "bare"}
	slurm := h200
	slurm.Launcher = "slurm"
	gpu := func(product, arch string) inventory.GPU {
		return inventory.GPU{Vendor: "nvidia", Product: product, Arch: arch}
	}
	const ends = ": run its cells on runners labelled h200-pool, or sweep without --sku"
	for _, tt := range []struct {
		name  string
		cells []plan.Cell
		gpus  []inventory.GPU
		slurm bool // is here
		want  string
	}{
		{"nothing to run", nil, nil, false, ""},
		{"host", []plan.Cell{host}, nil, false, ""},
		{"its devices", []plan.Cell{host, h200}, []inventory.GPU{gpu("NVIDIA H200", "sm_90")}, false, ""},
		{"among others", []plan.Cell{h200}, []inventory.GPU{gpu("NVIDIA T400", "sm_75"), gpu("NVIDIA H200", "sm_90")}, false, ""},
		{"driver that knows no architecture", []plan.Cell{h200}, []inventory.GPU{gpu("NVIDIA H200", "")}, false, ""},
		{"no device", []plan.Cell{host, h200}, nil, false, "platform h200-dgxc has h200 (sm_90), and this machine has no GPU" + ends},
		{
			"other devices",
			[]plan.Cell{h200},
			[]inventory.GPU{gpu("NVIDIA H20", "sm_90"), gpu("NVIDIA H20", "sm_90"), gpu("NVIDIA T400", "sm_75")},
			false,
			"platform h200-dgxc has h200 (sm_90), and this machine has 2 × NVIDIA H20 (sm_90), 1 × NVIDIA T400 (sm_75)" + ends,
		},
		{"login node", []plan.Cell{slurm}, nil, true, ""},
		{"no Slurm here", []plan.Cell{slurm}, nil, false, "platform h200-dgxc has h200 (sm_90), and this machine has no GPU" + ends},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bin := t.TempDir()
			t.Setenv("PATH", bin)
			if tt.slurm {
				require.NoError(t, os.WriteFile(filepath.Join(bin, "salloc"), nil, 0o755))
			}
			err := admit(tt.cells, tt.gpus)
			if tt.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tt.want)
			}
		})
	}
}

// otherPool is this machine with GPUs that no platform but the local has.
func otherPool(t *testing.T) {
	t.Helper()
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_FAKE_NAME", "NVIDIA H20")
	t.Setenv("PATH", t.TempDir()) // without salloc, which would find the pool's machines
}

const misfit = " … h200 (sm_90) … 2 × NVIDIA H20 (sm_90)"

func TestASweepOfAnotherPoolIsRefused(t *testing.T) {
	otherPool(t)
	out := filepath.Join(t.TempDir(), "out")
	_, stderr := ran(t, cli.ExitEnvironment, nil, "sweep", "--sku", "h200-dgxc", "--suite", "collectives-core", "--out", out)
	wording.Has(t, stderr, "platform h200-dgxc"+misfit)
	require.NoDirExists(t, out, "nothing was begun")
}

func TestACellOfAnotherPoolIsRefused(t *testing.T) {
	otherPool(t)
	var d cli.Definitions
	cat, err := d.Load()
	require.NoError(t, err)
	m, err := planHere(cat, planner.Filters{Only: planner.Only{"suite": {"collectives-core"}, "sku": {"h200-dgxc"}}}, planner.Machine{})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), matrixFile)
	require.NoError(t, m.WriteFile(path))
	results := filepath.Join(t.TempDir(), "results")
	shard := []string{"shard", "--matrix", path, "--id", m.Include[0].ID, "--results", results}
	_, stderr := ran(t, cli.ExitEnvironment, nil, shard...)
	wording.Has(t, stderr, "platform h200-dgxc"+misfit)

	require.Equal(t, vocab.Slurm, m.Include[0].Launcher)
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("PATH"), "salloc"), nil, 0o755))
	_, stderr = ran(t, cli.ExitEnvironment, nil, append(shard, "--join")...)
	wording.Has(t, stderr, "platform h200-dgxc"+misfit)
	require.NoDirExists(t, results, "nothing was begun")
}
