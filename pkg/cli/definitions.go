package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	_ "github.com/collectivex/collectivex/pkg/families" // definitions need them
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/strictyaml"
)

// Definitions is the flag with the definitions that a command reads.
type Definitions struct {
	Dir string // empty: the ones built into the program
}

// AddFlag registers the flag.
func (d *Definitions) AddFlag(fs *pflag.FlagSet) {
	fs.StringVar(&d.Dir, "definitions", "", "read the definitions in `DIR` instead of the built-in ones")
}

// Load reads the definitions. The error has all diagnostics, and ends a program with
// ExitUsage.
func (d *Definitions) Load() (*catalog.Catalog, error) {
	var fsys fs.FS = matrix.FS
	if d.Dir != "" {
		if info, err := os.Stat(d.Dir); err != nil || !info.IsDir() {
			return nil, UsageError("--definitions %s: no such directory", d.Dir)
		}
		fsys = os.DirFS(d.Dir)
	}
	cat, err := catalog.Load(fsys)
	if err != nil {
		if all, ok := errors.AsType[strictyaml.Errors](err); ok {
			err = all.Below(d.Dir)
		}
		return nil, UsageError("invalid definitions:\n%w", err)
	}
	return cat, nil
}

// AddFilterFlags registers the filters of all commands that plan. They take comma lists;
// "all" and an empty list are no filter.
func AddFilterFlags(fs *pflag.FlagSet, f *planner.Filters) {
	f.Only, f.MaxCases = planner.Only{}, planner.DefaultMaxCases
	for _, filter := range planner.AllFilters() {
		fs.Var(&list{filter, f.Only}, filter.Name, filter.Usage)
	}
	fs.Var((*count)(&f.MaxCases), "max-cases", "at most `N` cases in a cell")
}

type list struct {
	filter planner.Filter
	only   planner.Only
}

func (l *list) Set(s string) error {
	var out []string
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		switch {
		case word == "" && strings.Contains(s, ","):
			return errors.New("an element is empty")
		case word == "" || word == catalog.All:
			continue
		case l.filter.Numbers != nil:
			n, err := positive(word)
			if err != nil {
				return err
			}
			word = strconv.Itoa(n)
		}
		out = append(out, word)
	}
	l.only[l.filter.Name] = out
	return nil
}

func (l *list) String() string { return strings.Join(l.only[l.filter.Name], ",") }

func (l *list) Type() string { return "LIST" }

type count int

func (c *count) Set(s string) error {
	n, err := positive(s)
	if err == nil {
		*c = count(n)
	}
	return err
}

func (c *count) String() string { return strconv.Itoa(int(*c)) }

func (c *count) Type() string { return "int" }

func positive(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%q is not a positive number", s)
	}
	return n, nil
}

// completeFilters makes the shell complete the filters of c and of the commands below it from
// the definitions.
func completeFilters(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		l, ok := f.Value.(*list)
		if !ok {
			return
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			var defs Definitions
			if dir := c.Flags().Lookup("definitions"); dir != nil {
				defs.Dir = dir.Value.String()
			}
			cat, err := defs.Load()
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			before := typed[:strings.LastIndexByte(typed, ',')+1]
			var out []string
			for _, word := range l.filter.Choices(cat) {
				out = append(out, before+word)
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		}) // fails only for a second registration
	})
	for _, sub := range c.Commands() {
		completeFilters(sub)
	}
}
