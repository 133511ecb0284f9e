package workflow

import (
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// input is one input of workflow_dispatch and the filter of cxgen matrix that
// it sets.
type input struct {
	filter      string // flag of cxgen matrix, without dashes
	description string
	kind        string   // choice, string or number
	options     []string // of a choice
	preset      any
}

// name is the input's name; GitHub shows it on the web page.
func (i input) name() string { return strings.ReplaceAll(i.filter, "-", "_") }

// variable is the environment variable that carries the value to the shell.
func (i input) variable() string { return "CX_INPUT_" + strings.ToUpper(i.name()) }

// node is the input as workflow_dispatch declares it.
func (i input) node() *yaml.Node {
	n := mapping("description", i.description, "type", i.kind, "default", i.preset)
	if i.options != nil {
		n.Content = append(n.Content, mapping("options", i.options).Content...)
	}
	return n
}

// inputs are the filters of a plan as typed inputs, their choices taken from
// the definitions.
func inputs(cat *catalog.Catalog) []input {
	choice := func(filter, description string, options []string) input {
		return input{filter, description, "choice", append([]string{catalog.All}, options...), catalog.All}
	}
	u := usedBy(cat.Suites)
	degrees, worlds := planner.Sizes(cat)
	suites := catalog.Names(cat.Suites, func(s *catalog.Suite) string { return s.Name })
	first := suites[0]
	if slices.Contains(suites, smoke) {
		first = smoke
	}
	return []input{
		{"suite", "Suite of cases", "choice", suites, first},
		choice("backend", "Library to measure", catalog.Names(cat.Backends, func(b *catalog.Backend) string { return b.Name })),
		choice("sku", "Pool of machines", catalog.Names(cat.Platforms, func(p *catalog.Platform) string { return p.SKU })),
		{"exclude-sku", "Pools to leave out, separated by commas", "string", nil, ""},
		choice("world", "Ranks", numbers(worlds)),
		choice("ep", "EP: size", numbers(degrees)),
		choice("mode", "EP: kernel mode", ordered(vocab.EPModes(), u.modes)),
		choice("phase", "EP: phase", ordered(vocab.Phases(), u.phases)),
		choice("precision", "EP: dispatch precision", vocab.Precisions()),
		choice("op", "Collectives: operation", ordered(vocab.Ops(), u.ops)),
		choice("dtype", "Collectives: element type", ordered(vocab.DTypes(), u.dtypes)),
		choice("redop", "Collectives: reduction", ordered(vocab.RedOps(), u.redops)),
		{"max-cases", "Cases of one cell at most", "number", nil, planner.DefaultMaxCases},
	}
}

// smoke is the suite a dispatch runs unless it says otherwise.
const smoke = "smoke"

// used is what suites ask for.
type used struct {
	modes, phases, ops, dtypes, redops []string
}

func usedBy(suites []catalog.Suite) used {
	var u used
	for i := range suites {
		if blocks, ok := suites[i].Blocks["ep"].(*catalog.EPSuite); ok {
			for _, b := range *blocks {
				u.modes, u.phases = append(u.modes, b.Modes...), append(u.phases, b.Phases...)
			}
		}
		if blocks, ok := suites[i].Blocks["collective"].(*catalog.CollectiveSuite); ok {
			for _, b := range *blocks {
				u.ops, u.dtypes, u.redops = append(u.ops, b.Ops...), append(u.dtypes, b.DTypes...), append(u.redops, b.RedOps...)
			}
		}
	}
	return u
}

// ordered returns the words of all that are in some, in the order of all.
func ordered(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(w string) bool { return !slices.Contains(some, w) })
}

func numbers(ns []int) []string {
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = strconv.Itoa(n)
	}
	return out
}
