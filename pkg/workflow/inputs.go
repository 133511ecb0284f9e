package workflow

import (
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/planner"
)

// input is one input of workflow_dispatch, which sets one filter of cxgen matrix.
type input struct {
	Filter      string // flag of cxgen matrix, without dashes
	Description string
	Kind        string   // choice, string or number
	Options     []string // of a choice
	Preset      any
}

// Name returns the name of the input, which GitHub shows on the web page.
func (i input) Name() string { return strings.ReplaceAll(i.Filter, "-", "_") }

// Variable returns the environment variable that passes the value to the shell.
func (i input) Variable() string { return "CX_INPUT_" + strings.ToUpper(i.Name()) }

// inputs returns the filters of a plan as typed inputs. Their choices come from the
// definitions.
func inputs(cat *catalog.Catalog) []input {
	var out []input
	for _, f := range planner.AllFilters() {
		choices := f.Choices(cat)
		in := input{f.Name, f.Input, "choice", append([]string{catalog.All}, choices...), catalog.All}
		switch {
		case f.Excludes != "":
			in.Kind, in.Options, in.Preset = "string", nil, ""
		case f.Name == planner.FilterSuite: // a run is of one suite, by default smoke
			in.Options, in.Preset = choices, choices[0]
			if slices.Contains(choices, smoke) {
				in.Preset = smoke
			}
		}
		out = append(out, in)
	}
	return append(out, input{"max-cases", "Cases of one cell at most", "number", nil, planner.DefaultMaxCases})
}

// smoke is the suite of a dispatch by default.
const smoke = "smoke"
