package workflow

import (
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/planner"
)

// input is one input of workflow_dispatch and the filter of cxgen matrix that
// it sets.
type input struct {
	Filter      string // flag of cxgen matrix, without dashes
	Description string
	Kind        string   // choice, string or number
	Options     []string // of a choice
	Preset      any
}

// Name is the input's name; GitHub shows it on the web page.
func (i input) Name() string { return strings.ReplaceAll(i.Filter, "-", "_") }

// Variable is the environment variable that carries the value to the shell.
func (i input) Variable() string { return "CX_INPUT_" + strings.ToUpper(i.Name()) }

// inputs are the filters of a plan as typed inputs, their choices taken from
// the definitions.
func inputs(cat *catalog.Catalog) []input {
	var out []input
	for _, f := range planner.AllFilters() {
		choices := f.Choices(cat)
		in := input{f.Name, f.Input, "choice", append([]string{catalog.All}, choices...), catalog.All}
		switch {
		case f.Excludes != "":
			in.Kind, in.Options, in.Preset = "string", nil, ""
		case f.Name == planner.FilterSuite: // a run is of one, the smoke test unless said
			in.Options, in.Preset = choices, choices[0]
			if slices.Contains(choices, smoke) {
				in.Preset = smoke
			}
		}
		out = append(out, in)
	}
	return append(out, input{"max-cases", "Cases of one cell at most", "number", nil, planner.DefaultMaxCases})
}

// smoke is the suite a dispatch runs unless it says otherwise.
const smoke = "smoke"
