package toy

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"flag"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/table"

	"github.com/collectivex/collectivex/pkg/figure"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/export"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/report"
	"github.com/collectivex/collectivex/pkg/report/page"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/result/schema"
	"github.com/collectivex/collectivex/pkg/shard"
)

// The documents of the toy family, and what people read of them.
var toyResult = result.Family{
	Records:  []result.Record{{Type: "toy-attempt", Title: "CollectiveX document of a toy"}},
	Document: toyDocument{},
	New: func(head result.Envelope) result.Document {
		return &toyDocument{Envelope: head, Rounds: []toyRound{}}
	},
	Comparison: func(c *plan.Case) any { return c.Block },
	Check: func(p *result.Problems, d result.Document) {
		rounds := d.(*toyDocument).Rounds
		p.Check(rounds != nil, "rounds is null, must be a list")
		for _, r := range rounds {
			p.Check(r.Micros > 0, "a round of %v µs", r.Micros)
		}
	},
	Source: source,
}

func toyFigures(d result.Document) (rows []figure.Row) {
	for _, r := range d.(*toyDocument).Rounds {
		us := r.Micros
		rows = append(rows, figure.Row{
			Labels: figure.Labels{XName: "rank", X: int64(r.Rank + 1)}, Complete: true, Passed: true,
			Figures: []figure.Figure{{Name: "round", Stat: "p50", Unit: figure.Microseconds, Value: us, Samples: 1}},
			Lines: []figure.Line{{View: "toys", Facets: []string{d.Head().Identity.Case.Block.(*toyCase).Tone}, Point: figure.Point{
				X: int64(r.Rank + 1), Time: *result.PercentilesOf(us, us, us, us), Work: []float64{1e6}, Samples: 1,
			}}},
		})
	}
	return rows
}

var toyViews = []figure.View{{
	Name: "toys", Title: "Toys there and back", Shape: figure.Lines, X: figure.Axis{Title: "rank, from 1"},
	Facets: []figure.Facet{{Title: "tone", One: true}}, Rates: []figure.Rate{{Name: "toyrate", Title: "toy rate", Unit: "toys/s"}},
}}

var toySummary = family.Summary{
	Rows: func(d result.Document) (measured, asked int) {
		return len(d.(*toyDocument).Rounds), d.Head().Identity.Case.World
	},
	Headline: func(d result.Document) (list string, headline any) {
		return "toys", &toyHeadline{d.Head().Identity.CaseID, len(d.(*toyDocument).Rounds)}
	},
	Lists: []string{"toys"},
	Sections: func(h family.Headlines) family.Sections {
		t := &table.Table{Columns: []table.Column{{Name: "case"}, {Name: "rounds", Right: true}}}
		for _, toy := range family.Of[*toyHeadline](h, "toys") {
			t.Rows = append(t.Rows, []string{toy.CaseID, strconv.Itoa(toy.Rounds)})
		}
		return family.Sections{Headlines: []table.Section{{Title: "Toys", Table: t}}}
	},
}

//go:embed document_test.go
var source embed.FS

// toyDocument answers a toy.
type toyDocument struct {
	result.Envelope
	Rounds []toyRound `json:"rounds"`
}

// toyRound is one message there and back.
type toyRound struct {
	Rank   int     `json:"rank"`
	Micros float64 `json:"us"` // there and back
}

type toyHeadline struct {
	CaseID string `json:"case_id"`
	Rounds int    `json:"rounds"`
}

// toyRunner gathers a message of all ranks.
type toyRunner struct{}

func (toyRunner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	if err := s.Emit(rank.KindFacts, rank.Facts{DeviceProduct: "Toy", Framework: "host", AcceleratorRuntime: "host", NUMANode: -1}); err != nil {
		return err
	}
	message := []byte(strings.Repeat("x", c.Block.(*toyCase).Bytes))
	start := time.Now()
	if _, err := s.Store.Gather(ctx, s.Scope+"/round", s.Rank, s.World, message); err != nil {
		return err
	}
	return s.Emit("round", toyRound{s.Rank, float64(time.Since(start).Nanoseconds()+1) / 1e3})
}

func (toyRunner) Close() error { return nil }

func families() shard.Registry {
	return shard.Registry{"toy": {
		Assemble: func(d result.Document, streams []rank.Stream) error {
			doc := d.(*toyDocument)
			for _, s := range streams {
				for _, record := range s.Records {
					var r toyRound
					if err := json.Unmarshal(record.Data, &r); err != nil {
						return err
					}
					doc.Rounds = append(doc.Rounds, r)
				}
			}
			doc.Outcome = result.Outcome{Status: result.Success, Reasons: result.Reasons{}}
			return nil
		},
		Backends: map[string]rank.Opener{
			"ball": func(context.Context, *rank.Session, plan.Case) (rank.Runner, error) { return toyRunner{}, nil },
		},
	}}
}

// TestMain makes this program its own ranks.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "rank" {
		if err := ranks(os.Args[2:]); err != nil {
			log.Fatal(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func ranks(args []string) error {
	var p rank.Place
	f := flag.NewFlagSet("rank", flag.ExitOnError)
	dir := f.String("store", "", "")
	f.IntVar(&p.Rank, "rank", 0, "")
	f.IntVar(&p.World, "world", 0, "")
	f.IntVar(&p.LocalRank, "local-rank", 0, "")
	f.IntVar(&p.Node, "node", 0, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	store, err := rendezvous.OpenFile(*dir)
	if err != nil {
		return err
	}
	find := func(c plan.Case) (rank.Opener, error) { return families()[c.Family].Backends[c.Backend], nil }
	return rank.Loop(context.Background(), p, store, find, nil, os.Stderr)
}

type silent struct{}

func (silent) Started(int, int, plan.Case, int) {}
func (silent) Ended(int, int, shard.End)        {}
func (silent) Kept(int, int, plan.Case, bool)   {}
func (silent) Warn(string)                      {}

// A family that is registered and nothing else goes from its definition through
// ranks and documents to NDJSON, a summary and its JSON Schema.
func TestAFamilyFromElsewhereFromDefinitionToSummary(t *testing.T) {
	cat, err := catalog.Load(definitions(t, toys))
	require.NoError(t, err)
	m, err := planner.Resolve(cat, planner.Filters{Only: planner.Only{"suite": {"toys"}, "tone": {"ping"}, "world": {"2"}}}, planner.Machine{})
	require.NoError(t, err)
	m.Generator = plan.Generator{Program: "toy", Version: "v1", Format: plan.Format}
	require.NoError(t, m.WriteFile(filepath.Join(t.TempDir(), plan.FileName)))

	results := t.TempDir()
	program, err := os.Executable()
	require.NoError(t, err)
	counts, err := (&shard.Shard{
		Cell: m.Include[0], Cases: m.RequestedOther, Results: results, Families: families(),
		Run: shard.Run{
			RunID: "1", RunAttempt: "1", MatrixSHA256: m.SHA256, Generator: "toy v1", Screen: provenance.NewScreen(),
			Environment: func(map[string]string) map[string]string { return nil },
		},
		Launcher: launch.Local{Starter: command.Host{}, Program: []string{program, "rank"}, Scratch: t.TempDir()},
		Limit:    10 * time.Minute, Observer: silent{},
		Fits: func(rank.Facts) error { return nil },
	}).Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, shard.Counts{Passed: 2}, counts)

	out := filepath.Join(t.TempDir(), "run.ndjson")
	verdict, err := fold.Fold([]string{results}, m, fold.Expected{}, out)
	require.NoError(t, err)
	require.NoError(t, verdict.Err())
	ndjson, err := os.ReadFile(out)
	require.NoError(t, err)

	csv := filepath.Join(t.TempDir(), "run.csv")
	_, err = export.Write([]string{results}, csv, "cxrun test")
	require.NoError(t, err)
	table, err := os.ReadFile(csv)
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(string(table), ",round,"))

	toySchema := resulttest.Schemas(t)["toy-attempt.schema.json"]
	require.Contains(t, string(schemaFile(t, "toy-attempt.schema.json")), "there and back")
	documents := strings.Split(strings.TrimSpace(string(ndjson)), "\n")
	require.Len(t, documents, 2)
	for _, text := range documents {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, toySchema.Validate(v))
		d, err := result.Decode([]byte(text))
		require.NoError(t, err)
		require.Len(t, d.(*toyDocument).Rounds, 2)
	}

	summary, _, err := report.Build([]string{results}, m)
	require.NoError(t, err)
	var page, text bytes.Buffer
	require.NoError(t, summary.Text(&page))
	require.Contains(t, page.String(), "Toys\n")
	require.NoError(t, summary.JSON(&text))
	require.Contains(t, text.String(), `"toys":[{"case_id":"local-ball-ping-w2","rounds":2},{"case_id":"local-ball-ping-w2-r2","rounds":2}]`)
}

// A family's views are on the HTML page, by its descriptor alone: chart, buttons and rungs.
func TestAFamilyFromElsewhereHasViews(t *testing.T) {
	cat, err := catalog.Load(definitions(t, toys))
	require.NoError(t, err)
	m := resolve(t, cat, planner.Filters{Only: planner.Only{"suite": {"toys"}, "tone": {"ping"}, "world": {"2"}}})
	dir := t.TempDir()
	for i, q := range m.RequestedOther {
		made, err := result.New(q.Case, result.Attempt{RunID: "1", RunAttempt: "1", Ordinal: 1, At: time.Unix(1e9, 0).UTC(), Generator: "toy v1"})
		require.NoError(t, err)
		d := made.(*toyDocument)
		d.Outcome = result.Outcome{Status: result.Success, Reasons: result.Reasons{}}
		d.Rounds = []toyRound{{0, 12.5}, {1, 25}}
		_, err = result.Write(dir, d, i, func([]byte) error { return nil })
		require.NoError(t, err)
	}
	p, v, err := page.Build([]string{dir}, nil)
	require.NoError(t, err)
	require.Empty(t, v.Problems)
	require.Len(t, p.Views, 1)
	require.Equal(t, "toys", p.Views[0].Name)
	require.Len(t, p.Views[0].Series, len(m.RequestedOther))
	var html bytes.Buffer
	require.NoError(t, p.WriteHTML(&html))
	_, view, _ := strings.Cut(html.String(), `id="view-toys"`)
	view, _, _ = strings.Cut(view, "</section>")
	for _, want := range []string{"Toys there and back", "rank, from 1", "toy rate at p50 toys/s", ">12.5<", ">25<", ">80000<", ">40000<", ">ping<"} {
		require.Contains(t, view, want)
	}
	pictures, err := p.Pictures()
	require.NoError(t, err)
	require.Len(t, pictures, 1)
	require.Contains(t, string(pictures[0].SVG), "Toys there and back")
}

func schemaFile(t *testing.T, name string) []byte {
	t.Helper()
	files, err := schema.Files()
	require.NoError(t, err)
	i := slices.IndexFunc(files, func(f schema.File) bool { return f.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return files[i].Data
}
