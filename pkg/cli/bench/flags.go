package bench

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/planner"
)

// Group is flags that help shows together.
type Group struct {
	Title string
	Flags *pflag.FlagSet
}

// Usage prints the groups as help does.
func Usage(groups []Group) string {
	var b strings.Builder
	for _, g := range groups {
		g.Flags.VisitAll(func(f *pflag.Flag) {
			if f.DefValue != "[]" { // help does not mention an empty list
				f.DefValue = strings.Trim(f.DefValue, "[]")
			}
		})
		fmt.Fprintf(&b, "\n%s:\n%s", g.Title, g.Flags.FlagUsages())
	}
	return b.String()
}

// NewGroup returns a group without flags.
func NewGroup(title string) Group {
	fs := pflag.NewFlagSet(title, pflag.ContinueOnError)
	fs.SortFlags = false
	return Group{title, fs}
}

// AddGroups adds the flags of groups to a command, and returns the groups.
func (o *Output) AddGroups(fs *pflag.FlagSet, groups ...Group) []Group {
	for _, g := range groups {
		fs.AddFlagSet(g.Flags)
	}
	o.Set = fs.Changed
	return groups
}

// Output holds the flags that all families share: where results go, and the backend.
type Output struct {
	JSON        bool
	File        string // the JSON goes there too
	Out         string // documents and samples are kept here
	Backend     string
	Timeout     int    // maximum seconds of a case; 0: chosen from its sizes
	Wait        bool   // for devices that another process uses
	Baseline    string // a file that -J wrote
	MaxRegress  string // how much more time than in Baseline is accepted, in per cent
	Definitions cli.Definitions
	Set         func(name string) bool // whether a flag was given
}

// Options implements Measurement.
func (o *Output) Options() *Output { return o }

// Direct returns a measurement with a backend on a world of ranks, without its cases.
func (o *Output) Direct(be *catalog.Backend, world int) planner.Direct {
	return planner.Direct{Suite: Name, Backend: be.Name, World: world, Repeats: 1, Budget: o.Timeout}
}

// Refuse refuses names that are given and empty, and a negative time limit.
func (o *Output) Refuse() error {
	if o.Timeout < 0 {
		return cli.UsageError("-T: want 0 or more seconds")
	}
	for flag, name := range map[string]string{"output_file": o.File, "out": o.Out} {
		if name == "" && o.Set(flag) {
			return cli.UsageError("--%s is empty: give a name, or leave the flag out", flag)
		}
	}
	return nil
}

// Regress returns the fraction of time by which a size may be slower than in the baseline.
func (o *Output) Regress() (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(o.MaxRegress, "%")), 64)
	switch {
	case err != nil || !(v >= 0 && v < 1e15):
		return 0, cli.UsageError("--max-regress %q: want per cent, such as 5%%", o.MaxRegress)
	case o.Baseline == "" && o.Set("max-regress"):
		return 0, cli.UsageError("--max-regress needs --baseline FILE, which an earlier measurement wrote with -J")
	}
	return v / 100, nil
}

// AddFlags adds the flags of the output.
func (o *Output) AddFlags(g Group) {
	g.Flags.BoolVar(&o.JSON, "json", false, "write JSON, and nothing else, to standard output")
	g.Flags.StringVarP(&o.File, "output_file", "J", "", "write the JSON to `FILE` as well")
	g.Flags.StringVar(&o.Out, "out", "", "keep plan, documents and samples in `DIR`, which must not have a run yet")
	g.Flags.StringVar(&o.Baseline, "baseline", "", "exit 1 if a size is missing in `FILE`, which -J wrote, or slower by more than --max-regress")
	g.Flags.StringVar(&o.MaxRegress, "max-regress", "5%", "how many `PERCENT` more time than in --baseline is accepted")
	cli.AddWaitFlag(g.Flags, &o.Wait)
	o.Definitions.AddFlag(g.Flags)
}

// TimeLimit adds -T.
func (o *Output) TimeLimit(g Group) {
	g.Flags.IntVarP(&o.Timeout, "timeout", "T", 0, "stop a case after `SECONDS`; 0 chooses a limit from its sizes")
}

// Sizes are nccl-tests' flags of sizes, as they were given.
type Sizes struct {
	First, Last, Step string
	Factor            int64
	Zero              bool // whether 0 bytes is a size
}

// AddFlags adds the flags. bytes is the default of the first and the last size; first and last are
// their help.
func (s *Sizes) AddFlags(g Group, bytes, first, last string) {
	g.Flags.StringVarP(&s.First, "minbytes", "b", bytes, first)
	g.Flags.StringVarP(&s.Last, "maxbytes", "e", bytes, last)
	g.Flags.StringVarP(&s.Step, "stepbytes", "i", "1M", "add `SIZE` from one size to the next; without -f")
	g.Flags.Int64VarP(&s.Factor, "stepfactor", "f", 1, "multiply by `FACTOR` from one size to the next; 1 adds -i instead")
}

// FirstUsage and LastUsage are the usual help of the first and the last size.
const (
	FirstUsage = "first `SIZE`, in bytes or with K, M or G (powers of 1024, also as MB or MiB), such as 1.5K"
	LastUsage  = "last `SIZE`"
)

// List returns the sizes.
func (s *Sizes) List() ([]int64, error) {
	_, sizes, err := s.Given()
	return sizes, err
}

// Given returns -b, -e and -i as numbers of bytes, and the sizes.
func (s *Sizes) Given() (flags [3]int64, sizes []int64, err error) {
	for i, text := range []string{s.First, s.Last, s.Step} {
		if flags[i], err = ParseSize(text); err != nil {
			return flags, nil, cli.UsageError("-%c: %w", "bei"[i], err)
		}
	}
	if s.Zero && flags[0] == 0 && s.Factor > 1 {
		return flags, nil, cli.UsageError("-b 0: 0 times a factor is 0: leave -f out, and give the step with -i")
	}
	least := int64(1)
	if s.Zero {
		least = 0
	}
	sizes, err = ladder(least, flags[0], flags[1], flags[2], s.Factor)
	return flags, sizes, err
}
