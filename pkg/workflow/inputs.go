package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
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

// values returns the values of the template.
func (i input) values(cron string) values {
	return values{
		"Name": i.Name(), "Variable": i.Variable(), "Filter": i.Filter, "Description": i.Description, "Kind": i.Kind, "Options": i.Options, "Preset": i.Preset,
		"Expression": i.Expression(cron),
	}
}

// Expression returns the expression of the input's value. A scheduled run has no inputs, so it takes the preset.
func (i input) Expression(cron string) string {
	switch preset := i.Preset.(type) {
	case string:
		if cron != "" && preset != "" {
			return fmt.Sprintf("${{ inputs.%s || '%s' }}", i.Name(), preset)
		}
	case int:
		if cron != "" {
			return fmt.Sprintf("${{ inputs.%s || %d }}", i.Name(), preset)
		}
	}
	return fmt.Sprintf("${{ inputs.%s }}", i.Name())
}

// unlessPreset returns the expression of a blank, the name and the value of the input, and of nothing if the value is
// the preset.
func (i input) unlessPreset() string {
	preset := fmt.Sprint(i.Preset)
	if i.Kind != "number" {
		preset = "'" + preset + "'"
	}
	return fmt.Sprintf("${{ inputs.%[1]s && inputs.%[1]s != %[2]s && format(' %[1]s {0}', inputs.%[1]s) || '' }}", i.Name(), preset)
}

// inputs returns the filters of a plan as typed inputs. Their choices come from the
// definitions; a filter without any has no input.
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
		case len(choices) == 0:
			continue
		}
		out = append(out, in)
	}
	return append(out, input{"max-cases", "Cases of one cell at most", "number", nil, planner.DefaultMaxCases})
}

const smoke = "smoke"

// RequestInput is the input that marks a dispatch. The name of the setup job shows its value,
// by which the run can be found if GitHub does not answer with its id.
const RequestInput = "request"

// Values returns the inputs of a dispatch that plans with f, and the filters as the workflow
// will apply them: without a suite it sends smoke, whatever suite the workflow presets. It fails if the inputs cannot express
// a filter, such as two suites, or do not offer a value.
func Values(cat *catalog.Catalog, f planner.Filters) (planner.Filters, map[string]string, error) {
	out := map[string]string{}
	only := planner.Only{}
	var errs []error
	offered := inputs(cat)
	for name, want := range f.Only {
		if len(want) > 0 && !slices.ContainsFunc(offered, func(in input) bool { return in.Filter == name }) {
			errs = append(errs, fmt.Errorf("--%s: the definitions have nothing to choose from, so the workflow has no such input", name))
		}
	}
	for _, in := range offered {
		want := f.Only[in.Filter]
		switch {
		case in.Kind == "number":
			if f.MaxCases > 0 && f.MaxCases != in.Preset {
				out[in.Name()] = strconv.Itoa(f.MaxCases)
			}
			continue
		case in.Kind == "string" && len(want) > 0:
			out[in.Name()] = strings.Join(want, ",")
		case len(want) > 1:
			errs = append(errs, fmt.Errorf("--%s: a run takes one value or %q, not %d: dispatch once for each of %s", in.Filter, catalog.All, len(want), strings.Join(want, ", ")))
		case len(want) == 1 && !slices.Contains(in.Options, want[0]):
			errs = append(errs, fmt.Errorf("--%s: the workflow does not offer %q%s", in.Filter, want[0], vocab.Hint(want[0], in.Options)))
		case len(want) == 1:
			out[in.Name()] = want[0]
		case in.Filter == planner.FilterSuite:
			want = []string{in.Preset.(string)}
			out[in.Name()] = want[0]
		}
		if len(want) > 0 {
			only[in.Filter] = want
		}
	}
	return planner.Filters{Only: only, MaxCases: f.MaxCases}, out, errors.Join(errs...)
}
