// Package toy is a third family in tests alone: it shows that a family which
// registers its descriptors needs no change to any other file.
package toy

import (
	"bytes"
	"io/fs"
	"slices"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/collectivex/collectivex/pkg/family"

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
	"github.com/collectivex/collectivex/pkg/vocab"
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

// The toy family sends one message there and back. A family is its types and one descriptor.
func init() {
	vocab.Register("tone", "ping", "pong")
	family.Register(family.Family{
		Plan: toyPlan, Catalog: toyCatalog, Planner: toyPlanner,
		Result: toyResult, Figures: toyFigures, Views: toyViews, Summary: toySummary,
	})
}

var toyPlan = plan.Descriptor{Name: "toy", Block: &toyCase{}, Upstream: func(c *plan.Case) bool { return c.Block.(*toyCase).Tone == "pong" }}

var toyCatalog = catalog.Family{
	Cases: "toys", Suite: &toySuite{}, Backend: &toyBackend{}, Support: &catalog.Worlds{}, MinWorld: 2,
}

var toyPlanner = planner.Family{
	Filters: []planner.Filter{{Name: "tone", Kind: "tone", Asked: true, Usage: "only these tones of toys", Input: "Toys: tone"}},
	Cases: func(r *planner.Resolver, block catalog.SuiteBlock) {
		b := block.(*toySuite)
		for world, be := range r.Each("toy", b.Backends) {
			for _, tone := range r.Pick("tone", []string{"ping", "pong"}, b.Tones) {
				c := r.NewCase("toy", "there-and-back", "", be, world)
				c.Precision, c.Block = "int8", &toyCase{Tone: tone, Bytes: b.Bytes}
				r.Request(be, &c)
			}
		}
	},
	Fit:     toyLacks,
	Seconds: func(*plan.Case, catalog.Pace) float64 { return 1 },
}

type toyCase struct {
	Tone  string `json:"tone" in:"tone"`
	Bytes int    `json:"message_bytes"`
}

func (t *toyCase) Factors(c *plan.Case, to []string) []string {
	return append(to, t.Tone, "w"+strconv.Itoa(c.World))
}

type toySuite struct {
	Backends []string `yaml:"backends" in:"backend"`
	Tones    []string `yaml:"tones" in:"tone" default:"[ping]"`
	Bytes    int      `yaml:"bytes" min:"1"`
}

func (b *toySuite) Check(c *catalog.Checker, s *catalog.Suite) {
	if b.Bytes%2 != 0 {
		c.Diagnose(&b.Bytes, "suite %q sends half a byte", s.Name)
	}
}

func (*toySuite) Worlds(*catalog.Catalog, *catalog.Suite) []int { return []int{2} }

type toyBackend struct {
	Tones []string `yaml:"tones" in:"tone"`
}

func toyLacks(be *catalog.Backend, c *plan.Case) string {
	has, _ := be.Blocks["toy"].(*toyBackend)
	if tone := c.Block.(*toyCase).Tone; has == nil || !slices.Contains(has.Tones, tone) {
		return "backend " + be.Name + " has no tone " + tone
	}
	return ""
}

// definitions are the shipped definitions with a backend of the toy family, which
// runs on the local platform, and the given suite.
func definitions(t *testing.T, suite string) fstest.MapFS {
	t.Helper()
	defs := fstest.MapFS{"suites/toys.yaml": &fstest.MapFile{Data: []byte(suite)}}
	require.NoError(t, fs.WalkDir(matrix.FS, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(matrix.FS, p)
		switch p {
		case "backends.yaml":
			data = append(data, "  ball:\n    vendors: [host, nvidia]\n    maturity: reference\n    setup_seconds: 0\n    toy: {tones: [ping]}\n"...)
		case "platforms/local.yaml":
			data = append(data, "  ball:\n    toy: [2, 4]\n"...)
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
  - {backends: [ball], tones: [pong], bytes: 8}
  - {backends: [ball], bytes: 16}
`

// A family that is registered and nothing else is defined, filtered and planned like
// those that stand here.
func TestAFamilyFromElsewhere(t *testing.T) {
	cat, err := catalog.Load(definitions(t, toys))
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
	var file bytes.Buffer
	require.NoError(t, m.Write(&file))
	read, err := plan.Parse(file.Bytes(), "v1")
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
	cat, err := catalog.Load(definitions(t, toys))
	require.NoError(t, err)
	machine := twoGPUs
	gpus := *twoGPUs.GPUs
	gpus.Backends = append(gpus.Backends, "ball")
	machine.GPUs = &gpus
	m, err := planner.Resolve(cat, planner.Filters{Only: planner.Only{"tone": {"ping"}, "sku": {"local-h200"}}}, machine)
	require.NoError(t, err)
	require.Equal(t, []string{"local-h200-ball-ping-w2", "local-h200-ball-ping-w2-r2"}, caseIDs(m.RequestedOther))

	d := planner.Direct{Suite: "bench", Backend: "ball", World: 2, Repeats: 1, Cases: []plan.Case{{Family: "toy", Block: &toyCase{Tone: "ping", Bytes: 2}}}}
	m, err = d.Resolve(cat, machine)
	require.NoError(t, err)
	require.Equal(t, []string{"local-h200-ball-ping-w2"}, m.Include[0].CaseIDs)
	d.Cases[0].Block = &toyCase{Tone: "pong", Bytes: 2}
	_, err = d.Resolve(cat, machine)
	require.ErrorIs(t, err, planner.ErrCannot)
	require.ErrorContains(t, err, "backend ball has no tone pong")
}

// The definitions of a family from elsewhere are read as strictly as any.
func TestAFamilyFromElsewhereIsChecked(t *testing.T) {
	for _, tt := range []struct{ name, suite, want string }{
		{"key", "platforms: [local]\nsampling: smoke\ntoys: []\n", `suites/toys.yaml:3:1: unknown key "toys"; did you mean "toy"?`},
		{"no block", "platforms: [local]\nsampling: smoke\n", `suites/toys.yaml:1:12: suite "toys" … nor a toy block`},
		{"missing key", "platforms: [local]\nsampling: smoke\ntoy:\n  - backends: [ball]\n", `suites/toys.yaml:4:5: an element of "toy" lacks the key "bytes"`},
		{"word", "platforms: [local]\nsampling: smoke\ntoy:\n  - {backends: [ball], bytes: 2, tones: [pan]}\n", `suites/toys.yaml:4:42: unknown tone "pan"; choose from ping, pong`},
		{"own check", "platforms: [local]\nsampling: smoke\ntoy:\n  - {backends: [ball], bytes: 3}\n", `suites/toys.yaml:4:31: suite "toys" sends half a byte`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := catalog.Load(definitions(t, tt.suite))
			require.Error(t, err)
			wording.Has(t, err.Error(), tt.want)
		})
	}
}
