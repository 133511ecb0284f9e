package bench

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/cli"
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
			if f.DefValue != "[]" { // an empty list, of which nothing is said
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

// Output is where a measurement's results go; the families share it.
type Output struct {
	JSON        bool
	File        string // the JSON goes there too
	Out         string // documents and samples are kept here
	Backend     string
	Timeout     int // seconds that a case may take; 0 is what fits its sizes
	Definitions cli.Definitions
	set         func(name string) bool // whether a flag was given
}

// Refuse refuses names that are given and empty, and a negative time limit.
func (o *Output) Refuse() error {
	if o.Timeout < 0 {
		return cli.UsageError("-T: want 0 or more seconds")
	}
	for flag, name := range map[string]string{"output_file": o.File, "out": o.Out} {
		if name == "" && o.set(flag) {
			return cli.UsageError("--%s is empty: give a name, or leave the flag out", flag)
		}
	}
	return nil
}

// AddFlags adds the flags of the output.
func (o *Output) AddFlags(g Group) {
	o.set = g.Flags.Changed
	g.Flags.BoolVar(&o.JSON, "json", false, "write JSON, and nothing else, to standard output")
	g.Flags.StringVarP(&o.File, "output_file", "J", "", "write the JSON to `FILE` as well")
	g.Flags.StringVar(&o.Out, "out", "", "keep plan, documents and samples in `DIR`, which must not have a run yet")
}

// TimeLimit adds -T.
func (o *Output) TimeLimit(g Group) {
	g.Flags.IntVarP(&o.Timeout, "timeout", "T", 0, "stop a case after `SECONDS`; 0 chooses a limit from its sizes")
}
