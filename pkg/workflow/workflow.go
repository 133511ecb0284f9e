// Package workflow emits the GitHub Actions workflow that runs a plan. Setup makes the
// matrix and builds the programs, the sweep jobs run one cell each, and aggregate folds the
// documents and checks that none is missing.
//
// No run script contains an expression: inputs reach a shell only as the values of environment
// variables.
package workflow

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
)

// Name is the name of the workflow, and File its path in the repository.
const (
	Name = "CollectiveX Sweep"
	File = ".github/workflows/collectivex-sweep.yml"
)

// maxFileBytes is the maximum size of a workflow file on GitHub.
const maxFileBytes = 500_000

// GlibcFloor is the oldest version of the GNU C library that the built cxrun runs on. Setup
// and the tests refuse a binary that needs a newer one.
const GlibcFloor = "2.34"

// Source is where setup gets CollectiveX from. The zero value is the repository of the
// workflow.
type Source struct {
	Repository string // owner/name
	SHA        string // full commit
}

var source = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+)@([0-9a-f]{40})$`)

// ParseSource parses OWNER/NAME@SHA. A branch or tag is refused: it could change what runs
// on the fleet.
func ParseSource(s string) (Source, error) {
	m := source.FindStringSubmatch(s)
	if m == nil || strings.Trim(m[1][strings.IndexByte(m[1], '/')+1:], ".") == "" {
		return Source{}, fmt.Errorf("source %q: want OWNER/NAME@SHA with the full commit SHA", s)
	}
	return Source{Repository: m[1], SHA: m[2]}, nil
}

// Release is a release of CollectiveX that setup downloads instead of building it. The zero value means
// no release.
type Release struct {
	Version string // v1.2.3
	SHA256  string // of its SHA256SUMS, in hexadecimal
}

// Releases is the address below which the files of a release are, in a directory with its version.
const Releases = "https://github.com/collectivex/collectivex/releases/download"

var release = regexp.MustCompile(`^(v[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?)@([0-9a-f]{64})$`)

// ParseRelease parses VERSION@SHA256. A version alone is refused: its files could be replaced.
func ParseRelease(s string) (Release, error) {
	m := release.FindStringSubmatch(s)
	if m == nil {
		version, _, _ := strings.Cut(s, "@")
		return Release{}, fmt.Errorf("release %q: want VERSION@SHA256; get the SHA256 with: curl -fsSL %s/%s/SHA256SUMS | sha256sum", s, Releases, version)
	}
	return Release{Version: m[1], SHA256: m[2]}, nil
}

// Number returns the version without its v, as in file names.
func (r Release) Number() string { return strings.TrimPrefix(r.Version, "v") }

// Options are the differences from the workflow of CollectiveX's own repository with the
// built-in definitions, which is the zero value.
type Options struct {
	Source Source
	// Release excludes Source.
	Release Release
	// Definitions is the directory of the definitions in the workflow's own repository,
	// slash-separated and relative to its root; empty for the built-in ones.
	Definitions string
	// Cron is when the workflow also runs by itself, with the presets of its inputs; empty for never.
	Cron string
	// Baseline is the number of successful runs that a scheduled run is compared with; 0 for none. It needs Cron.
	Baseline int
	// Suite is the preset of the input suite; empty for smoke.
	Suite string
}

// cron matches POSIX cron expressions, which GitHub takes.
var cron = regexp.MustCompile(`^[0-9A-Za-z*/,-]+( [0-9A-Za-z*/,-]+){4}$`)

// cronFields are the names and the lowest and highest numbers of its fields, of which GitHub refuses others.
var cronFields = []struct {
	name      string
	low, high int
}{{"minute", 0, 59}, {"hour", 0, 23}, {"day", 1, 31}, {"month", 1, 12}, {"weekday", 0, 6}}

// cronRange returns an error for the first number of an expression that its field does not have.
func cronRange(expression string) error {
	for i, field := range strings.Fields(expression) {
		f := cronFields[i]
		for part := range strings.SplitSeq(field, ",") {
			span, _, _ := strings.Cut(part, "/")
			for word := range strings.SplitSeq(span, "-") {
				if n, err := strconv.Atoi(word); err == nil && (n < f.low || n > f.high) {
					return fmt.Errorf("cron %q: %s %d: want %d to %d", expression, f.name, n, f.low, f.high)
				}
			}
		}
	}
	return nil
}

func (o Options) check(cat *catalog.Catalog) error {
	switch {
	case o.Definitions != "" && !directory.MatchString(o.Definitions):
		return fmt.Errorf("definitions %q: want a directory of the workflow's repository, relative to its root, in plain letters", o.Definitions)
	case o.Cron != "" && !cron.MatchString(o.Cron):
		return fmt.Errorf("cron %q: want five fields, such as \"0 2 * * *\" for 02:00 UTC each day", o.Cron)
	case o.Baseline > 0 && o.Cron == "":
		return errors.New("a baseline is for scheduled runs: say when with --cron, such as \"0 2 * * *\"")
	case o.Suite != "" && !slices.ContainsFunc(cat.Suites, func(s catalog.Suite) bool { return s.Name == o.Suite }):
		return fmt.Errorf("suite %q: the definitions have no such suite", o.Suite)
	}
	return cronRange(o.Cron)
}

// directory matches valid values of Definitions, without characters that a path or a shell
// interprets.
var directory = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$`)

// Emit returns the workflow for the definitions in cat.
func Emit(cat *catalog.Catalog, o Options) ([]byte, error) {
	if err := o.check(cat); err != nil {
		return nil, err
	}
	dir := o.Definitions
	if dir != "" && o.Source != (Source{}) {
		dir = "own/" + dir // where the template checks out the workflow's own repository
	}
	var all []values
	for _, in := range o.inputs(cat) {
		all = append(all, in.values(o.Cron))
	}
	out, err := render("workflow", values{
		"Name": Name, "Glibc": GlibcFloor, "Command": o.Command(), "RunName": o.runName(cat), "Request": RequestInput,
		"Repository": o.Source.Repository, "SHA": o.Source.SHA,
		"Release": o.Release.Version, "Digest": o.Release.SHA256, "Archive": o.Release.Number(), "Releases": Releases,
		"Directory":    dir, // of the definitions; empty for the built-in ones
		"Inputs":       all,
		"Waves":        waves(cat), // one sweep job each
		"Environments": slices.ContainsFunc(cat.Platforms, func(p catalog.Platform) bool { return p.Environment != "" }),
		"Cron":         o.Cron, "Baseline": o.Baseline, "RetentionDays": retentionDays,
	})
	if err == nil && len(out) > maxFileBytes {
		err = fmt.Errorf("the workflow has %d bytes, but GitHub takes at most %d", len(out), maxFileBytes)
	}
	return out, err
}

// Command returns the command line that writes the workflow.
func (o Options) Command() string {
	command := "go run ./cmd/cxgen workflow"
	if o.Source != (Source{}) {
		command = "cxgen workflow --source " + o.Source.Repository + "@" + o.Source.SHA
	}
	if o.Release != (Release{}) {
		command = "cxgen workflow --release " + o.Release.Version + "@" + o.Release.SHA256
	}
	if o.Definitions != "" {
		command += " --definitions " + o.Definitions
	}
	if o.Cron != "" {
		command += " --cron '" + o.Cron + "'"
	}
	if o.Baseline > 0 {
		command += " --baseline " + strconv.Itoa(o.Baseline)
	}
	if o.Suite != "" {
		command += " --suite " + o.Suite
	}
	return command
}

// retentionDays is how long GitHub keeps the datasets of a workflow with a baseline, whatever its default is.
const retentionDays = 90

// runName returns the expression that names a run by its inputs: suite, SKU and what else differs from its preset. The
// name identifies the inputs, since GitHub's API does not show them.
func (o Options) runName(cat *catalog.Catalog) string {
	name, others := "", ""
	for _, in := range o.inputs(cat) {
		switch in.Filter {
		case planner.FilterSuite:
			name = in.Expression(o.Cron) + name
		case planner.FilterSKU:
			name += " on " + in.Expression(o.Cron)
		default:
			others += in.unlessPreset()
		}
	}
	return name + others
}

// inputs returns the inputs of the workflow.
func (o Options) inputs(cat *catalog.Catalog) []input {
	all := inputs(cat)
	for i := range all {
		if all[i].Filter == planner.FilterSuite && o.Suite != "" {
			all[i].Preset = o.Suite
		}
	}
	return all
}

// waves returns the number of waves that the largest suite needs if each cell has one case.
func waves(cat *catalog.Catalog) int {
	most := 1
	for _, s := range cat.Suites {
		m, err := planner.Resolve(cat, planner.Filters{Only: planner.Only{planner.FilterSuite: {s.Name}}, MaxCases: 1}, planner.Machine{})
		if err != nil { // more cells than all waves have
			return plan.Waves
		}
		most = max(most, (len(m.Include)+plan.WaveCells-1)/plan.WaveCells)
	}
	return most
}
