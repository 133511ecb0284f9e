package toy

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/workflow"
)

var twoGPUs = planner.Machine{CPU: "amd64", GPUs: &planner.GPUs{Vendor: "nvidia", Product: "h200", Arch: "sm90", Transport: "nvlink", Count: 2, Backends: []string{"nccl", "host"}}}

func resolve(t *testing.T, cat *catalog.Catalog, f planner.Filters) *plan.Matrix {
	t.Helper()
	m, err := planner.Resolve(cat, f, planner.Machine{})
	require.NoError(t, err)
	m.Generator = plan.Generator{Program: "cxgen", Version: "v1", Format: plan.Format}
	return m
}

func caseIDs(list []plan.Requested) []string {
	var ids []string
	for _, q := range list {
		ids = append(ids, q.Case.CaseID)
	}
	return ids
}

// definitions are the shipped definitions with a backend of the toy family, which runs on the local
// platform, its sample counts, and the given suite.
func definitions(t *testing.T, suite, vendors string) fstest.MapFS {
	t.Helper()
	defs := fstest.MapFS{"suites/toys.yaml": &fstest.MapFile{Data: []byte(suite)}}
	require.NoError(t, fs.WalkDir(matrix.FS, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(matrix.FS, p)
		switch p {
		case "backends.yaml":
			data = append(data, "  ball:\n    vendors: ["+vendors+"]\n    maturity: reference\n    setup_seconds: 0\n    toy: {tones: [ping]}\n"...)
		case "platforms/local.yaml":
			data = append(data, "  ball:\n    toy: [2, 4]\n"...)
		case "sampling.yaml": // whose last profile is smoke
			data = append(data, "    toy: {throws: 4}\n"...)
		}
		defs[p] = &fstest.MapFile{Data: data}
		return err
	}))
	return defs
}

const toys = `
platforms: [local]
sampling: smoke
repeats: 2
toy:
  - {backends: [ball], tones: [pong], sizes: {from: 8, to: 8, factor: 2}}
  - {backends: [ball], sizes: {from: 8, to: 64, factor: 8}}
`

// A family that is registered and nothing else is defined, filtered and planned like
// those that stand here.
func TestAFamilyFromElsewhere(t *testing.T) {
	cat, err := catalog.Load(definitions(t, toys, "host, nvidia"))
	require.NoError(t, err)
	require.Contains(t, cat.Coverage(), catalog.Coverage{SKU: "local", Backend: "ball", Mode: "toys", World: 2, Runs: true})

	var filters planner.Filters
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	cli.AddFilterFlags(flags, &filters)
	require.NoError(t, flags.Parse([]string{"--suite", "toys,smoke", "--tone", "all", "--world", "2"}))
	m := resolve(t, cat, filters)
	require.Equal(t, []string{
		"local-host-tiny-normal-decode-ep2-uniform-bf16",
		"local-host-all-reduce-float-sum-w2-warm",
		"local-host-p2p-float-w2-warm",
		"local-host-kv-tiny-shm-xfer-ep2-paged-bf16",
		"local-ball-ping-w2", "local-ball-ping-w2-r2",
	}, caseIDs(m.RequestedOther))
	require.Equal(t, []string{"local-ball-pong-w2"}, caseIDs(m.RequestedCases), "where its descriptor says that its cases go")
	require.Equal(t, "backend ball has no tone pong", *m.RequestedCases[0].Detail)
	cell, err := m.Cell("local-ball-toy-n1")
	require.NoError(t, err)
	require.Equal(t, []string{"local-ball-ping-w2", "local-ball-ping-w2-r2"}, cell.CaseIDs)
	var all bytes.Buffer
	require.NoError(t, m.Write(&all))
	value, err := jsonschema.UnmarshalJSON(&all)
	require.NoError(t, err)
	require.NoError(t, resulttest.Schemas(t)["matrix.schema.json"].Validate(value))

	require.NoError(t, flags.Parse([]string{"--tone", "ping"}))
	m = resolve(t, cat, filters)
	require.Equal(t, []string{"local-ball-ping-w2", "local-ball-ping-w2-r2"}, caseIDs(m.RequestedOther), "a filter of one family keeps it alone")
	file := filepath.Join(t.TempDir(), plan.FileName)
	require.NoError(t, m.WriteFile(file))
	read, err := plan.ReadFile(file, "v1")
	require.NoError(t, err)
	require.Equal(t, m.RequestedOther, read.RequestedOther)

	require.NoError(t, flags.Parse([]string{"--tone", "pin"}))
	_, err = planner.Resolve(cat, filters, planner.Machine{})
	require.EqualError(t, err, `unknown tone "pin"; did you mean "ping"?`)

	emitted, err := workflow.Emit(cat, workflow.Options{})
	require.NoError(t, err)
	require.Contains(t, string(emitted), "description: 'Toys: tone'")
}

func TestAFamilyFromElsewhereOnTheMachineAtHand(t *testing.T) {
	cat, err := catalog.Load(definitions(t, toys, "host, nvidia"))
	require.NoError(t, err)
	machine := twoGPUs
	gpus := *twoGPUs.GPUs
	gpus.Backends = append(gpus.Backends, "ball")
	machine.GPUs = &gpus
	m, err := planner.Resolve(cat, planner.Filters{Only: planner.Only{"tone": {"ping"}, "sku": {"local-h200"}}}, machine)
	require.NoError(t, err)
	require.Equal(t, []string{"local-h200-ball-ping-w2", "local-h200-ball-ping-w2-r2"}, caseIDs(m.RequestedOther))

	d := planner.Direct{Suite: "bench", Backend: "ball", World: 2, Repeats: 1, Cases: []plan.Case{{Family: "toy", Block: &block{"ping", []int64{2}, 1}}}}
	m, err = d.Resolve(cat, machine)
	require.NoError(t, err)
	require.Equal(t, []string{"local-h200-ball-ping-w2"}, m.Include[0].CaseIDs)
	d.Cases[0].Block = &block{"pong", []int64{2}, 1}
	_, err = d.Resolve(cat, machine)
	require.ErrorIs(t, err, planner.ErrCannot)
	require.ErrorContains(t, err, "backend ball has no tone pong")
}

// The definitions of a family from elsewhere are read as strictly as any.
func TestAFamilyFromElsewhereIsChecked(t *testing.T) {
	for _, tt := range []struct{ name, suite, want string }{
		{"key", "platforms: [local]\nsampling: smoke\ntoys: []\n", `suites/toys.yaml:3:1: unknown key "toys"; did you mean "toy"?`},
		{"no block", "platforms: [local]\nsampling: smoke\n", `suites/toys.yaml:1:12: suite "toys" … nor a toy block`},
		{"missing key", "platforms: [local]\nsampling: smoke\ntoy:\n  - backends: [ball]\n", `suites/toys.yaml:4:5: an element of "toy" lacks the key "sizes"`},
		{"word", "platforms: [local]\nsampling: smoke\ntoy:\n  - {backends: [ball], tones: [pan], sizes: {from: 2, to: 2, factor: 2}}\n", `suites/toys.yaml:4:32: unknown tone "pan"; choose from ping, pong`},
		{"own check", "platforms: [local]\nsampling: smoke\ntoy:\n  - {backends: [ball], sizes: {from: 3, to: 3, factor: 2}}\n", `suites/toys.yaml:4:38: suite "toys" throws half a word`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := catalog.Load(definitions(t, tt.suite, "host, nvidia"))
			require.Error(t, err)
			wording.Has(t, err.Error(), tt.want)
		})
	}
}
