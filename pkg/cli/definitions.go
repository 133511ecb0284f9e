package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/planner"
)

// Definitions is the flag that says which definitions a command reads.
type Definitions struct {
	Dir string // empty: the ones built into the program
}

// AddFlag registers the flag.
func (d *Definitions) AddFlag(fs *pflag.FlagSet) {
	fs.StringVar(&d.Dir, "definitions", "", "read the definitions in `DIR` instead of the built-in ones")
}

// Load reads the definitions. Every fault in them is in the error, which ends
// a program with ExitUsage.
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
		return nil, UsageError("the definitions are not sound\n%w", err)
	}
	return cat, nil
}

// AddFilterFlags registers the filters, which are the same in every command
// that plans: comma lists in which "all" or nothing filters nothing.
func AddFilterFlags(fs *pflag.FlagSet, f *planner.Filters) {
	words := func(p *[]string, name, usage string) {
		fs.Var(&list[string]{p: p, parse: func(s string) (string, error) { return s, nil }}, name, usage)
	}
	counts := func(p *[]int, name, usage string) {
		fs.Var(&list[int]{p: p, parse: positive}, name, usage)
	}
	words(&f.Suites, "suite", "only these suites")
	words(&f.Backends, "backend", "only these backends")
	words(&f.SKUs, "sku", "only these platforms")
	words(&f.ExcludeSKUs, "exclude-sku", "not these platforms")
	counts(&f.EP, "ep", "only these EP sizes")
	counts(&f.Worlds, "world", "only these world sizes")
	words(&f.Modes, "mode", "only these EP modes: normal, low-latency")
	words(&f.Precisions, "precision", "only these EP dispatch precisions: bf16, fp8; naming one also plans backends that have it off the main path")
	words(&f.Phases, "phase", "only these EP phases: decode, prefill")
	words(&f.Ops, "op", "only these collective operations")
	words(&f.DTypes, "dtype", "only these element types of collectives")
	words(&f.RedOps, "redop", "only these reductions of collectives")
	f.MaxCases = planner.DefaultMaxCases
	fs.Var((*count)(&f.MaxCases), "max-cases", "at most `N` cases in a cell")
}

// list is a flag that takes a comma list.
type list[T any] struct {
	p     *[]T
	parse func(string) (T, error)
}

func (l *list[T]) Set(s string) error {
	var out []T
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		switch {
		case word == "" && strings.Contains(s, ","):
			return errors.New("an element is empty")
		case word == "" || word == catalog.All:
			continue
		}
		v, err := l.parse(word)
		if err != nil {
			return err
		}
		out = append(out, v)
	}
	*l.p = out
	return nil
}

func (l *list[T]) String() string {
	if l.p == nil {
		return ""
	}
	words := make([]string, len(*l.p))
	for i, v := range *l.p {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, ",")
}

func (l *list[T]) Type() string { return "LIST" }

// count is a flag that takes a positive number.
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
