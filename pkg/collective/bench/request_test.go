package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// ask reads a command line: the operation and flags.
func ask(t *testing.T, line string) (Request, error) {
	t.Helper()
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	f, _ := NewFlags(fs)
	require.NoError(t, fs.Parse(strings.Fields(line)))
	require.Len(t, fs.Args(), 1)
	return f.Request(fs.Arg(0))
}

// Variables that would set a threshold or the traffic in nccl-tests are refused, with the flag to use instead.
func TestVariablesOfNCCLTests(t *testing.T) {
	for name, flag := range map[string]string{"NCCL_TESTS_MIN_BW": "--min-busbw", "NCCL_TESTS_ALLTOALLV_MATRIX_FILE": "--traffic"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "1")
			_, err := ask(t, "all_reduce")
			require.EqualError(t, err, name+": not supported: unset it, and use "+flag)
		})
	}
}

// planned returns the cases that a command line comes to on two ranks of a
// backend.
func planned(t *testing.T, backend, line string) planner.Direct {
	t.Helper()
	r, err := ask(t, line)
	require.NoError(t, err)
	world := r.World
	if world == 0 {
		world = 2
	}
	d, err := r.Plan(plantest.Shipped().Backend(backend), world)
	require.NoError(t, err)
	return d
}

// Checks that were asked for take time too.
func TestChecksAreEstimated(t *testing.T) {
	seconds := func(line string) float64 {
		return collective.Seconds(&planned(t, "nccl", line).Cases[0], catalog.Pace{Micros: 1, GBps: 1})
	}
	require.InDelta(t, 2*1000*(1e-6+2*float64(32<<20)/1e9), seconds("all_reduce -c 2000")-seconds("all_reduce -c 1000"), 1e-3)
}

func TestDefaultsAreThoseOfNCCLTests(t *testing.T) {
	d := planned(t, "nccl", "all_reduce")
	require.Equal(t, planner.Direct{Suite: bench.Name, Backend: "nccl", World: 2, Repeats: 1, Cases: []plan.Case{{
		Family: collective.Name, Precision: "float", Sampling: bench.Name, Contract: collective.Contract,
		Block: &collective.Block{
			Op: "all_reduce", RedOp: "sum", Sizes: []int64{32 << 20},
			Placements: []string{vocab.OutOfPlace, vocab.InPlace}, Modes: []string{vocab.Pipelined},
			Buffers: vocab.Shifted, Registration: "none",
			Measure: collective.Counts{Warmup: 1, Iterations: 20, Trials: 1, Aggregate: 1, Launches: 1},
		},
	}}}, d)
}

// Every flag that means something changes its field of the plan.
func TestFlagsReachTheCase(t *testing.T) {
	for _, tt := range []struct {
		line string
		got  func(planner.Direct) any
		want any
	}{
		{"-b 8 -e 64 -f 2", sizes, []int64{8, 16, 32, 64}},
		{"--minbytes 1.5K --maxbytes 3k --stepbytes 0.5K", sizes, []int64{1536, 2048, 2560, 3072}},
		{"-b 8 -e 20 -i 8 -f 1", sizes, []int64{8, 16}},
		{"-b 1G -e 1G", sizes, []int64{1 << 30}},
		{"-t 2 -g 3", func(d planner.Direct) any { return d.World }, 6},
		{"-n 7 -w 0 -m 3 -G 5 --trials 9", func(d planner.Direct) any { return collective.Of(&d.Cases[0]).Measure }, collective.Counts{Iterations: 7, Trials: 9, Aggregate: 3, Launches: 5}},
		{"-N 4", func(d planner.Direct) any { return d.Repeats }, 4},
		{"-T 30", func(d planner.Direct) any { return d.Budget }, 30},
		{"-z 0", modes, []string{"pipelined"}},
		{"-z 3", modes, []string{"blocking"}},
		{"-z 1", modes, []string{"pipelined"}},
		{"-z 1", wait, "barrier"},
		{"-z 2", wait, "operation"},
		{"-z 3", wait, ""},
		{"-I 1 -K 3", func(d planner.Direct) any { return collective.Of(&d.Cases[0]).Measure.Skip }, 3},
		{"-c 100", checks, 100},
		{"-c 64", checks, 64},
		{"-c 0", checks, 2},
		{"-y 1", func(d planner.Direct) any { return collective.Of(&d.Cases[0]).NullStream }, true},
		{"-O 0", func(d planner.Direct) any { return collective.Of(&d.Cases[0]).Placements }, []string{vocab.InPlace}},
		{"-b 0 -e 8 -i 4", sizes, []int64{0, 4, 8}},
		{"-N 0", func(d planner.Direct) any { return d.Repeats }, 1},
		{"-G 1", modes, []string{"graph"}},
		{"-I 1", modes, []string{"pipelined", "per_iteration"}},
		{"-z 3 -I 1", modes, []string{"blocking", "per_iteration"}},
		{"-R 1", registration, "local"},
		{"-R 2", registration, "symmetric"},
		{"--repeatable 5", func(d planner.Direct) any { return collective.Of(&d.Cases[0]).Measure.Repeatable }, 5},
		{"-x 2", func(d planner.Direct) any { return d.Cases[0].Env }, map[string]string{"NCCL_CTA_POLICY": "2"}},
		{"-x 0", func(d planner.Direct) any { return d.Cases[0].Env }, map[string]string{"NCCL_CTA_POLICY": "0"}},
		{"-u 3", func(d planner.Direct) any { return collective.Of(&d.Cases[0]).Unalign }, int64(3)},
		{"-d bfloat16", types, []string{"bfloat16"}},
		{"-d all", types, vocab.DTypes()},
		{"-o avg", redops, []string{"avg"}},
		{"-o all", redops, vocab.RedOps()},
		{"-z 3 --buffers fresh", func(d planner.Direct) any { return collective.Of(&d.Cases[0]).Buffers }, "fresh"},
		{"--buffers cold", func(d planner.Direct) any { return collective.Of(&d.Cases[0]).Buffers }, "cold"},
		{"-p 0 -c 0 -y 0 -S 1 -D 0 -V 16 -M 1 -K 0 -C 1 -a 3 -O 1", func(d planner.Direct) any { return len(d.Cases) }, 1},
	} {
		t.Run(tt.line, func(t *testing.T) {
			require.Equal(t, tt.want, tt.got(planned(t, "nccl", "all_reduce "+tt.line)))
		})
	}
}

// -D selects one of our kernels by its number, which differs by operation, and nothing beside it.
func TestDeviceImplementations(t *testing.T) {
	for line, want := range map[string]string{
		"all_reduce -D 0 -R 2": "", "all_reduce -D 1 -R 2": "device_lsa", "alltoall -D 2 -R 2 -V 16": "device_lsa_vec",
		"p2p -D 2 -R 2": "device_get", "p2p_bidir -D 1 -R 2": "device_put", "p2p_bidir -D 3 -R 2": "device_ping_pong",
		"p2p -D 3 -R 2": "device_put_window", "p2p_bidir -D 4 -R 2": "device_put_window",
	} {
		d := planned(t, "nccl", line)
		require.Equal(t, []string{want}, field(d, func(c plan.Case) string { return collective.Of(&c).Algorithm }), line)
		require.Empty(t, d.Cases[0].Env, line)
	}
	require.Equal(t, 8, collective.Of(&planned(t, "nccl", "p2p -D 1 -R 2 -V 8").Cases[0]).CTAs)
	names := field(planned(t, "nccl", "alltoall -R 2 --algo all"), func(c plan.Case) string { return collective.Of(&c).Algorithm })
	require.Equal(t, []string{"", "device_lsa", "device_lsa_vec"}, names)
}

func sizes(d planner.Direct) any        { return collective.Of(&d.Cases[0]).Sizes }
func wait(d planner.Direct) any         { return collective.Of(&d.Cases[0]).Measure.Wait }
func checks(d planner.Direct) any       { return collective.Of(&d.Cases[0]).Measure.Checks }
func modes(d planner.Direct) any        { return collective.Of(&d.Cases[0]).Modes }
func registration(d planner.Direct) any { return collective.Of(&d.Cases[0]).Registration }
func types(d planner.Direct) any        { return field(d, func(c plan.Case) string { return c.Precision }) }

func redops(d planner.Direct) any {
	return field(d, func(c plan.Case) string { return collective.Of(&c).RedOp })
}

func field[T any](d planner.Direct, of func(plan.Case) T) []T {
	var out []T
	for _, c := range d.Cases {
		out = append(out, of(c))
	}
	return out
}

func TestRootsAndReductionsBelongToTheirOperations(t *testing.T) {
	roots := func(d planner.Direct) []int { return field(d, func(c plan.Case) int { return collective.Of(&c).Root }) }
	require.Equal(t, []int{1}, roots(planned(t, "host", "broadcast -r 1")))
	require.Equal(t, []int{0, 1, 2}, roots(planned(t, "host", "reduce -t 3 -r -1")))
	require.Equal(t, []int{0}, roots(planned(t, "host", "all_gather -r 1")), "nccl-tests takes no notice either")
	require.Equal(t, []string{""}, redops(planned(t, "host", "all_gather -o prod")))
	require.Equal(t, []string{vocab.OutOfPlace}, collective.Of(&planned(t, "host", "alltoall").Cases[0]).Placements)
}

// What cannot be asked is refused in one line that says what to do.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"all_reduc", `unknown operation "all_reduc"; did you mean "all_reduce"?`},
		{"all_reduce -o su", `unknown reduction "su"; did you mean "sum"?`},
		{"all_reduce -d floot", `unknown element type "floot"; did you mean "float"?`},
		{"all_reduce --buffers wram", `unknown kind of buffers "wram"; did you mean "warm"?`},
		{"all_reduce --buffers fresh", "in other modes there is no time to write them before an operation: add -z 3, and leave -I out"},
		{"all_reduce --buffers fresh -z 3 -I 1", "add -z 3, and leave -I out"},
		{"all_reduce -b 8x", `-b: invalid size "8x"`},
		{"all_reduce -e K", `-e: invalid size "K"`},
		{"all_reduce -b -8", `-b: invalid size "-8"`},
		{"all_reduce -b nan", `-b: invalid size "nan"`},
		{"all_reduce -e 1E", `-e: invalid size "1E"`},
		{"all_reduce -b 0 -e 8 -f 2", "-b 0: 0 times a factor is 0: leave -f out, and give the step with -i"},
		{"p2p -b 0 -e 64 -i 16 --model m.yaml", "--model: a size of 0 bytes"},
		{"all_reduce -e 1M", "-b 32M is above -e 1M"},
		{"all_reduce -b 8 -i 0", "-i 0: want at least one byte"},
		{"all_reduce -f 0", "-f 0: want a factor of at least 2, or 1 to add -i instead"},
		{"all_reduce -b 8 -e 16 -f -2", "-f -2: "},
		{"hypercube -m 2", "-m 2: operation hypercube has no group calls"},
		{"all_reduce -b 1 -e 1G -i 1", "more than 4096 sizes: use a larger step"},
		{"all_reduce -t 0", "-t and -g: want at least 1"},
		{"all_reduce -g -2", "-t and -g: want at least 1"},
		{"all_reduce -N -1", "-N: want 1 or more, or 0 to go on until Ctrl-C"},
		{"all_reduce -n 0", "-n: want at least 1"},
		{"all_reduce -w -1", "-w: want 0 or more"},
		{"all_reduce -m 0", "-m: want at least 1"},
		{"all_reduce --trials 0", "--trials: want at least 1"},
		{"all_reduce -G -1", "-G: want 0 or more"},
		{"all_reduce -u -1", "-u: want 0 to 1048576 elements"},
		{"all_reduce -u 4611686018427387904", "-u: want 0 to 1048576 elements"},
		{"all_reduce -z 1 -m 2", "-z 1 -m 2: … nothing to wait for between them: want -m 1, or -z 3"},
		{"all_reduce -z 1 --buffers fresh", "--buffers: … add -z 3, and leave -I out"},
		{"all_reduce -z 4", "-z: want 0 to 3"},
		{"all_reduce -z 3 -G 1", "choose one"},
		{"all_reduce -z 1 -G 1", "-z 1 waits after each operation … choose one"},
		{"all_reduce -C 1 -z 2", "-z 2 waits in between: choose one"},
		{"alltoall -O 0", "-O 0: alltoall has no in-place form"},
		{"all_reduce -O 2", "-O: want 0 or 1"},
		{"all_reduce -Y fine", "-Y fine: not supported: … no fine-grained memory; want coarse"},
		{"all_reduce -Y host", "-Y host: not supported: … the link to the host"},
		{"all_reduce -Y managed", "-Y managed: not supported: pages of managed memory move"},
		{"all_reduce -Y corse", "-Y corse: not supported: rccl-tests does not have it either; want coarse"},
		{"all_reduce -I 1 -G 1", "choose one"},
		{"all_reduce -I 2", "-I: want 0 or 1"},
		{"all_reduce -C 2", "-C: want 0 or 1"},
		{"all_reduce -C 1 -z 3", "choose one"},
		{"all_reduce -C 1 -a 1", "leave -a at 3"},
		{"all_reduce -a 4", "-a: want 0 (rank 0)"},
		{"all_reduce -R 3", "-R: want 0 (none)"},
		{"all_reduce -x 3", "-x: want 0 (default)"},
		{"all_reduce -x -1", "-x: want 0 (default)"},
		{"all_reduce -y 2", "-y: want 0 or 1"},
		{"all_reduce -y 1 -G 1", "choose one"},
		{"all_reduce -S 2", "-S: want 0 or 1"},
		{"all_reduce -D 1", "-D: … add -R 2"},
		{"all_reduce -D -1", "-D: want 0 or more"},
		{"all_reduce -D 3 -R 2", "-D 3: all_reduce has 2 kernels … multimem or GIN are not supported"},
		{"broadcast -D 1 -R 2", "-D 1: broadcast has 0 kernels"},
		{"all_reduce -D 1 -R 2 --algo symk", "-D measures one kernel"},
		{"all_reduce -N 0 --algo ring", "-N 0 never ends, and --algo and --ctas compare at the end"},
		{"all_reduce -V 8", "-V: only for the kernels of -D"},
		{"all_reduce -V 65 -D 1 -R 2", "-V: want 1 to 64"},
		{"all_reduce -M 2", "-M: want 0 or 1"},
		{"all_reduce -K 1", "-K … add -I 1"},
		{"all_reduce -K 20 -I 1", "-K: … fewer than the 20 iterations of -n"},
		{"all_reduce --min-busbw 32M", `--min-busbw "32M": write SIZE=GBPS, such as 1M=40`},
		{"all_reduce --min-busbw 32M=fast", `write SIZE=GBPS`},
		{"all_reduce --max-time 32M=0", `want a value above 0`},
		{"all_reduce --max-time 32M=NaN", `write SIZE=US`},
		{"all_reduce --max-time x=1", `--max-time: invalid size "x"`},
		{"all_reduce --max-time 16M=1", "--max-time … 16777216 bytes"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			_, err := ask(t, tt.line)
			require.Error(t, err)
			wording.Has(t, err.Error(), tt.want)
			require.NotContains(t, err.Error(), "\n")
			var exit *cli.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, cli.ExitUsage, exit.Code)
		})
	}
}

func TestRefusalsOfAPlan(t *testing.T) {
	host := plantest.Shipped().Backend("host")
	traffic := filepath.Join(t.TempDir(), "pair.txt")
	require.NoError(t, os.WriteFile(traffic, []byte("0 4096\n1024 12\n"), 0o600))
	for _, tt := range []struct {
		line  string
		world int
		want  string
	}{
		{"broadcast -r 2", 2, "-r 2: ranks are 0 to 1"},
		{"broadcast -r -2", 2, "-r -2: ranks are 0 to 1"},
		{"all_reduce -x 0", 2, "which backend host does not use"},
		{"all_reduce -M 1", 2, "-M and -y are about the memory and the streams of a device, which backend host does not have"},
		{"all_reduce -y 1", 2, "which backend host does not have"},
		{"all_reduce", 0, "0 ranks"},
		{"all_reduce --min-busbw 32M=1", 1, "--min-busbw: the busbw of all_reduce on 1 rank is 0 by its formula: use --max-time, or more ranks"},
		{"alltoallv --traffic " + traffic, 4, traffic + " has 2 ranks, but 4 ranks are requested: -t times -g must be equal to the ranks of the file"},
	} {
		r, err := ask(t, tt.line)
		require.NoError(t, err)
		_, err = r.Plan(host, tt.world)
		require.ErrorContains(t, err, tt.want)
	}
}

// A case for the library's own choice, and one for each algorithm that the operation and the flag name.
func TestAlgorithmsAreCases(t *testing.T) {
	names := func(d planner.Direct) []string {
		return field(d, func(c plan.Case) string { return collective.Of(&c).Algorithm })
	}
	require.Equal(t, []string{"", "tree_ll", "ring_ll", "ring_ll128", "ring_simple"}, names(planned(t, "nccl", "all_reduce --algo ring,TREE_LL")))
	require.Equal(t, []string{"", "ring_ll", "ring_ll128", "ring_simple"}, names(planned(t, "rccl", "broadcast --algo all")))
	windows := planned(t, "nccl", "reduce_scatter --algo all -R 2")
	require.Equal(t, []string{"", "symk_ll", "symk_tmald", "symk_ld", "symk_ldmc"}, names(windows))
	require.Equal(t, map[string]string{"NCCL_SYM_KERNEL": "ReduceScatter_LD"}, windows.Cases[3].Env)
	require.Equal(t, "SYMK_LD+^SYMK_LDMC", collective.Selection("symk_ld"))
	require.Equal(t, "RING_LL+^RING_LL128", collective.Selection("ring_ll"))
	d := planned(t, "nccl", "all_gather --algo all -x 1")
	require.Equal(t, []string{"", "ring_ll", "ring_ll128", "ring_simple", "collnet_direct_simple", "nvls_simple", "pat_simple"}, names(d))
	require.Equal(t, map[string]string{"NCCL_CTA_POLICY": "1"}, d.Cases[0].Env)
	require.Equal(t, map[string]string{"NCCL_CTA_POLICY": "1", "NCCL_ALGO": "Ring", "NCCL_PROTO": "LL128"}, d.Cases[2].Env)

	variants := func(d planner.Direct) []string {
		return field(d, func(c plan.Case) string { return collective.Of(&c).Variant() })
	}
	limited := planned(t, "nccl", "broadcast --algo ring_ll --ctas 2,16")
	require.Equal(t, []string{"", "auto(2)", "auto(16)", "ring_ll", "ring_ll(2)", "ring_ll(16)"}, variants(limited))
	require.Equal(t, map[string]string{"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL", "NCCL_MIN_CTAS": "16", "NCCL_MAX_CTAS": "16"}, limited.Cases[5].Env)
	require.Equal(t, []string{"", "auto(8)"}, variants(planned(t, "rccl", "all_reduce --ctas 8")))

	for line, want := range map[string]string{
		"all_reduce --ctas 0":                   "--ctas: want different numbers from 1 to 64",
		"all_reduce --ctas 4,65":                "--ctas: want different numbers from 1 to 64",
		"all_reduce --ctas 4,4":                 "--ctas: want different numbers from 1 to 64",
		"alltoall --ctas 4":                     "--ctas: backend nccl has no algorithms to choose from for alltoall",
		"all_reduce --algo ring_l":              `--algo: unknown algorithm "ring_l" of all_reduce; did you mean "ring_ll"?`,
		"all_gather --algo tree":                `--algo: unknown algorithm "tree" of all_gather; `,
		"alltoall --algo all":                   "--algo: backend nccl has no algorithms to choose from for alltoall",
		"all_reduce --algo ring --repeatable 1": "--repeatable: want 2 to 1000000 operations, or 0",
		"all_gather --repeatable 2":             "--repeatable: all_gather adds nothing, and all of its results are checked bit for bit anyway",
	} {
		r, err := ask(t, line)
		if err == nil {
			_, err = r.Plan(plantest.Shipped().Backend("nccl"), 2)
		}
		require.ErrorContains(t, err, want)
	}
	t.Setenv("NCCL_ALGO", "Ring")
	r, err := ask(t, "all_reduce --algo ring")
	require.NoError(t, err)
	_, err = r.Plan(plantest.Shipped().Backend("nccl"), 2)
	require.EqualError(t, err, "--algo: NCCL_ALGO is set, so the library would not choose by itself: unset it")
	t.Setenv("NCCL_ALGO", "")
	t.Setenv("NCCL_MAX_CTAS", "4")
	_, err = r.Plan(plantest.Shipped().Backend("nccl"), 2)
	require.NoError(t, err, "algorithms within the limit")
	limit, err := ask(t, "all_reduce --algo ring --ctas 2")
	require.NoError(t, err)
	_, err = limit.Plan(plantest.Shipped().Backend("nccl"), 2)
	require.EqualError(t, err, "--algo: NCCL_MAX_CTAS is set, so the library would not choose by itself: unset it")
	t.Setenv("NCCL_MAX_CTAS", "")
	t.Setenv("NCCL_DEBUG", "WARN")
	_, err = r.Plan(plantest.Shipped().Backend("nccl"), 2)
	require.ErrorContains(t, err, "--algo: NCCL_DEBUG is set")
}

func TestHelpShowsEveryFlag(t *testing.T) {
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	_, groups := NewFlags(fs)
	help := bench.Usage(groups)
	fs.VisitAll(func(f *pflag.Flag) {
		require.Contains(t, help, "--"+f.Name)
		require.NotEmpty(t, f.Usage, f.Name)
	})
	for _, short := range "tgbeifnmwNpIKcodrzyTGCaRxDVJSMuOXYZ" { // nccl-tests', but -h
		require.NotNil(t, fs.ShorthandLookup(string(short)), string(short))
	}
}

// docs/bench.md has every flag, and of nccl-tests' ones whether it is the same.
func TestThePageHasEveryFlag(t *testing.T) {
	page, err := os.ReadFile("../../../docs/bench.md")
	require.NoError(t, err)
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	NewFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + " --" + f.Name + "`"
		}
		require.Contains(t, string(page), name)
	})
}

func TestRefusalsOfSizesAndModels(t *testing.T) {
	for line, want := range map[string]string{
		"all_reduce --model m.yaml":            "--model: want one p2p: no other operation, and no -d all, -N or -G",
		"p2p -m 4 --model m.yaml":              "--model: -m 4, -n 20 and -w 1: want the times of single messages after an untimed one: -m 1, and at least -n 2 and -w 1",
		"p2p -b 4 -e 64 -f 2 --model m.yaml":   "--model: a size of 4 bytes: choose -b, -e and -f so that all sizes are multiples of 16",
		"p2p -b 1K -e 2K -f 2 --model m.yaml":  "--model: 2 sizes, want at least 4 with -b, -e and -f",
		"alltoallv":                            "--traffic FILE is required for alltoallv and not supported for other operations",
		"alltoallv --traffic pair.txt -e 1M":   "--maxbytes: not supported with --traffic, which determines the size",
		"all_reduce -T -1":                     "-T: want 0 or more seconds",
		"all_reduce --out=":                    "--out is empty: give a name, or leave the flag out",
		"all_reduce -t 4294967296":             "-t and -g: want at most 1048576",
		"all_reduce -n 2000000000":             "-n times -m: want at most 1000000 operations in a window; use --trials for more windows",
		"all_reduce --trials 2000000000":       "-w, -G, -c and --trials: want at most 1000000",
		"all_reduce -c 1000001":                "-w, -G, -c and --trials: want at most 1000000",
		"all_reduce --max-time 32M=1,32768K=2": `--max-time "32768K=2": duplicate threshold for 33554432 bytes`,
		"all_reduce --max-time 16M=1":          `--max-time "16M=1": 16777216 bytes is not one of the measured sizes; see -b, -e, -f and -i`,
		"all_reduce --min-busbw 32M=0":         "--min-busbw 32M=0: want a value above 0",
	} {
		t.Run(line, func(t *testing.T) {
			fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
			f, _ := NewFlags(fs)
			require.NoError(t, fs.Parse(strings.Fields(line)))
			err := f.Refuse()
			if err == nil {
				_, err = f.Request(fs.Arg(0))
			}
			require.EqualError(t, err, want)
		})
	}
}
