// Package toy is a family of measurements in tests alone: it has all that a family has, and no other
// file knows it. A rank throws a message to the next rank, which throws it back, and times how long
// it takes until it has its echo.
package toy

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/run"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Name is the name of the family.
const Name plan.Family = "toy"

// contract is the timing contract: from the throw of a message to the arrival of its echo.
const contract = "there-and-back"

var toy = family.Family{
	Plan: plan.Descriptor{Name: Name, Block: &block{}, Upstream: func(c *plan.Case) bool { return of(c).Tone == "pong" }},
	Catalog: catalog.Family{
		Cases: "toys", Suite: &suiteBlock{}, Backend: &backendBlock{}, Support: &catalog.Worlds{}, Sampling: &sampling{}, MinWorld: 2, Added: true,
	},
	Planner: planner.Family{
		Filters: []planner.Filter{{Name: "tone", Kind: "tone", Asked: true, Usage: "only these tones of toys", Input: "Toys: tone"}},
		Cases:   cases, Fit: lacks, Seconds: func(*plan.Case, catalog.Pace) float64 { return 1 },
	},
	Result: result.Family{
		Records:  []result.Record{{Type: "toy-attempt", Title: "CollectiveX document of a toy"}},
		Document: document{}, New: newDocument, Comparison: func(c *plan.Case) any { return []any{of(c).Tone, of(c).Throws} }, Check: check,
	},
	Figures: figures,
	Spans:   spans,
	Views:   views,
	Summary: family.Summary{Rows: rows, Headline: headlineOf, Lists: []string{list}, Sections: sections},
}

// What a family from here does in a line of pkg/families and one of pkg/cli/run.
func init() {
	vocab.Register("tone", tones...)
	family.Register(toy)
	run.Register(&measurer, &command, ball)
}

// TestMain makes this program a cxrun that has the family, as its ranks need it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		ctx, _ := cli.WithSignals(context.Background())
		os.Exit(run.Main(ctx, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}, os.Args[1:]))
	}
	os.Exit(m.Run())
}
