package workflow

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/planner"
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
	var out []input
	for _, f := range planner.AllFilters() {
		choices := f.Choices(cat)
		in := input{f.Name, f.Input, "choice", append([]string{catalog.All}, choices...), catalog.All}
		switch {
		case f.Excludes != "":
			in.kind, in.options, in.preset = "string", nil, ""
		case f.Name == planner.FilterSuite: // a run is of one, the smoke test unless said
			in.options, in.preset = choices, choices[0]
			if slices.Contains(choices, smoke) {
				in.preset = smoke
			}
		}
		out = append(out, in)
	}
	return append(out, input{"max-cases", "Cases of one cell at most", "number", nil, planner.DefaultMaxCases})
}

// smoke is the suite a dispatch runs unless it says otherwise.
const smoke = "smoke"
