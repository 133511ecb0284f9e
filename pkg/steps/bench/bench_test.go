package bench

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/benchtest"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	collectives "github.com/collectivex/collectivex/pkg/collective/bench"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/steps"
)

// named measures a ring unless the words are others.
type named struct{ *Flags }

func (n named) Ranks(words []string) (int, error) {
	if len(words) == 0 {
		words = []string{"all_reduce", "ring"}
	}
	return n.Flags.Ranks(words)
}

func TestRefusalsOfSchedules(t *testing.T) {
	three, err := schedule.Generate("ring", schedule.AllReduce, schedule.Shape{Ranks: 3})
	require.NoError(t, err)
	command := Command
	command.Flags = func(fs *pflag.FlagSet) (bench.Measurement, []bench.Group) {
		f, groups := NewFlags(fs)
		f.Read = func(string) ([]byte, *schedule.Program, error) { return []byte("content"), three, nil }
		return named{f}, groups
	}
	benchtest.Refuses(t, command, []benchtest.Refusal{
		benchtest.Usage("-o max", "-o: a schedule supports only sums: want sum"),
		benchtest.Usage("-m 2", "-m: a schedule has no group calls of several operations: want 1"),
		benchtest.Usage("-G 1", "-G: a schedule is not captured in graphs: want 0"),
		benchtest.Usage("-R 1", "-R: a schedule does not register buffers: want 0"),
		benchtest.Usage("-y 1", "-y: a schedule has streams of its own: want 0"),
		benchtest.Usage("-b 0 -e 8 -i 4", "-b 0: a schedule has no steps for 0 bytes: want at least one byte"),
		benchtest.Usage("-u 1", "-u: a schedule runs on aligned buffers: want 0"),
		benchtest.Usage("ring.xml --width 2", "--width and --segments: not supported with a plan file: ring.xml has its own shape"),
		benchtest.Usage("ring.xml -t 4", "ring.xml is a plan for 3 ranks, but -t times -g is 4: omit them, or make them match"),
		benchtest.Usage("ring.xml -b 1M -e 1M",
			"ring.xml: 1048576 bytes cannot be divided into its 3 chunks of whole float elements: choose multiples of 12 bytes with -b, -e and -i or -f"),
		benchtest.Usage(strings.Repeat("x", 80),
			"the name of plan "+strings.Repeat("x", 80)+" is published in documents: rename the file to at most 64 printable characters"),
	})
}

// A world or a shape that a schedule does not have is wrong usage on every machine, and any other
// is planned.
func TestShapesOfSchedules(t *testing.T) {
	cat := plantest.Shipped()
	host := cat.Backend(bench.HostBackend)
	for _, a := range schedule.Algorithms() {
		for world := 1; world <= 8; world++ {
			for _, shape := range []string{"", "--width=2", "--segments=2000"} {
				fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
				f, _ := NewFlags(fs)
				require.NoError(t, fs.Parse(strings.Fields("-b 4K -e 4K "+shape)))
				r, err := f.Request(string(a.Collective), a.Name)
				if f.width > 0 && !a.HasWidth() || f.segments > 0 && !a.HasSegments() {
					require.ErrorContains(t, err, " is not used by "+string(a.Collective)+" "+a.Name+": leave it out")
					continue
				}
				require.NoError(t, err)
				d, err := r.Plan(host, world)
				if err == nil {
					_, err = d.Resolve(cat, planner.Machine{})
				}
				want := a.Allows(schedule.Shape{Ranks: world, Width: f.width, Segments: f.segments}.WithDefaults())
				if want == nil {
					require.NoError(t, err)
					continue
				}
				require.EqualError(t, err, want.Error())
				var exit *cli.ExitError
				require.ErrorAs(t, err, &exit)
				require.Equal(t, cli.ExitUsage, exit.Code)
			}
		}
	}
}

// The foot of a plan in a file names it, with what identifies it.
func TestTheFootOfAPlan(t *testing.T) {
	r := collectives.Request{By: by(steps.Block{PlanFile: "ring.xml"}, nil)}
	p := collectives.NewReport(&r, bench.Head{})
	p.Results = append(p.Results, collectives.CaseRows{PlanSHA256: "0123", Program: &result.Program{Messages: 4}})
	var out bytes.Buffer
	collectives.NewTable(&out, &r).Foot(p)
	require.Contains(t, out.String(), "# ring.xml             : SHA-256 0123; every rank ran it, with 4 messages\n")
}
