package bench

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/schedule"
)

// refusal is a command line that is refused, and the whole of what its user reads. The
// tests of the command assert exit codes and names alone.
type refusal struct {
	line string
	code int
	want string
}

// refuses plans each line on the backend "host" on two ranks.
func refuses(t *testing.T, plan func(*pflag.FlagSet) func(args []string, cat *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error), tests []refusal) {
	t.Helper()
	cat := shipped(t)
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
			p := plan(fs)
			require.NoError(t, fs.Parse(strings.Fields(tt.line)))
			_, err := p(fs.Args(), cat, cat.Backend(HostBackend), 2)
			require.EqualError(t, err, tt.want)
			var exit *cli.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, tt.code, exit.Code)
		})
	}
}

func TestRefusalsOfSchedules(t *testing.T) {
	three, err := schedule.Generate("ring", schedule.AllReduce, schedule.Shape{Ranks: 3})
	require.NoError(t, err)
	refuses(t, func(fs *pflag.FlagSet) func([]string, *catalog.Catalog, *catalog.Backend, int) (planner.Direct, error) {
		f, _ := NewScheduleFlags(fs)
		return func(args []string, _ *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
			r, err := f.Request("all_reduce", "ring")
			if len(args) > 0 {
				r, err = f.PlanRequest(args[0], []byte("content"), three)
			}
			if err != nil {
				return planner.Direct{}, err
			}
			if r.World != 0 {
				world = r.World
			}
			return r.Plan(be, world)
		}
	}, []refusal{
		{"-o max", cli.ExitUsage, "-o: a schedule adds: want sum"},
		{"-m 2", cli.ExitUsage, "-m: a schedule has no group calls of several operations: want 1"},
		{"-G 1", cli.ExitUsage, "-G: a schedule is not captured in graphs: want 0"},
		{"-R 1", cli.ExitUsage, "-R: a schedule registers no buffers: want 0"},
		{"-u 1", cli.ExitUsage, "-u: a schedule runs on aligned buffers: want 0"},
		{"ring.xml --width 2", cli.ExitUsage, "--width and --segments are for schedules that are known by name; the plan in ring.xml has its own shape"},
		{"ring.xml -t 4", cli.ExitUsage, "ring.xml is a plan of 3 ranks, and -t times -g is 4: leave them out, or make it as many"},
		{
			"ring.xml -b 1M -e 1M", cli.ExitUsage,
			"ring.xml: 1048576 bytes do not divide into its 3 chunks of whole elements of float: choose multiples of 12 bytes with -b, -e and -i or -f",
		},
		{
			strings.Repeat("x", 80), cli.ExitUsage,
			"the name of plan " + strings.Repeat("x", 80) + " stands in documents: take one of at most 64 printable characters",
		},
	})
}

// Of the flags of a collective; request_test.go has the others.
func TestRefusalsOfSizesAndModels(t *testing.T) {
	for line, want := range map[string]string{
		"all_reduce --model m.yaml":            "--model: want one p2p: no other operation, and no -d all, -N or -G",
		"p2p -m 4 --model m.yaml":              "--model: -m 4, -n 20 and -w 1: want the times of single messages after an untimed one: -m 1, and at least -n 2 and -w 1",
		"p2p -b 4 -e 64 -f 2 --model m.yaml":   "--model: a size of 4 bytes: choose -b, -e and -f so that all sizes are multiples of 16",
		"p2p -b 1K -e 2K -f 2 --model m.yaml":  "--model: 2 sizes, want at least 4 with -b, -e and -f",
		"alltoallv":                            "alltoallv needs --traffic FILE, and no other operation takes it",
		"alltoallv --traffic pair.txt -e 1M":   "--maxbytes: the size is that of the traffic",
		"all_reduce -T -1":                     "-T: want 0 or more seconds",
		"all_reduce --out=":                    "--out is empty: give a name, or leave the flag out",
		"all_reduce -t 4294967296":             "-t and -g: want at most 1048576",
		"all_reduce -n 2000000000":             "-n times -m: want at most 1000000 operations in a window; use --trials for more windows",
		"all_reduce --trials 2000000000":       "-w, -G and --trials: want at most 1000000",
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
