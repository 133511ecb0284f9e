package gen

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/compare"
	"github.com/collectivex/collectivex/pkg/fleet"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/table"
)

// historyFile has the documents of all runs.
const historyFile = "history.ndjson"

// maxHistory limits the runs of a history.
const maxHistory = 100

// historyOutput is what history prints as JSON.
type historyOutput struct {
	File   string          `json:"file"` // the documents of the runs
	Runs   []int64         `json:"runs"`
	Trends []compare.Trend `json:"trends"`
}

func newHistory(s cli.Streams, clock fleet.Clock) *cobra.Command {
	var (
		dir  string
		runs int
	)
	r := &remote{s: s, clock: clock}
	cmd := &cobra.Command{
		Use:   "history RUN -o DIR",
		Short: "Download the datasets of the successful runs before a run, and draw the trend of each case",
		Long: `Download the datasets of the last successful runs before RUN into DIR/ID/aggregate/, and
draw the time of each case over these runs. They are runs of the same workflow, branch and
inputs. DIR is a cache: datasets that it has are kept. Runs whose dataset has expired are
passed over. DIR/history.ndjson has the documents of these runs, with which
'cxrun compare --baseline DIR/history.ndjson NEW' compares a run, as the scheduled runs of
'cxgen workflow --baseline' do.

RUN is a number, a URL, or - for the first line of standard
input.`,
		Example: `  cxgen history https://github.com/acme/fleet/actions/runs/1001 -o nights
  cxgen history 1001 --repo acme/fleet -o nights --runs 30`,
		Args: oneRun,
		RunE: func(c *cobra.Command, args []string) error {
			if runs < 1 || runs > maxHistory {
				return cli.UsageError("--runs %d: want 1 to %d", runs, maxHistory)
			}
			client, id, err := r.run(c.Context(), args[0])
			if err != nil {
				return err
			}
			list, err := client.History(c.Context(), id, runs, dir, func(a fleet.Artifact) { tellArtifact(s, a) })
			if err != nil {
				return unreachable(err)
			}
			out, err := trendsOf(dir, list)
			if err != nil {
				return err
			}
			return r.print(out, func() { out.text(s) })
		},
	}
	r.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&dir, "output", "o", "", "write into `DIR`")
	_ = cmd.MarkFlagRequired("output") // fails only for unknown flags
	cmd.Flags().IntVar(&runs, "runs", 10, "download `N` runs")
	return cmd
}

// join writes the datasets of runs one after the other.
func (t *historyOutput) join(w io.Writer, list []*fleet.Fetched) error {
	for _, f := range list {
		t.Runs = append(t.Runs, f.ID)
		dir := filepath.Join(f.Dir, f.Artifacts[0].Dir)
		files, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, file := range files {
			if filepath.Ext(file.Name()) != ".ndjson" {
				continue
			}
			in, err := safefile.Open(filepath.Join(dir, file.Name()))
			if err == nil {
				_, err = io.Copy(w, in)
				err = errors.Join(err, in.Close())
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// trendsOf writes the datasets of runs into one file and reads it.
func trendsOf(dir string, list []*fleet.Fetched) (*historyOutput, error) {
	out := &historyOutput{File: filepath.Join(dir, historyFile), Runs: []int64{}, Trends: []compare.Trend{}}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = safefile.WriteAtomic(out.File, func(w io.Writer) error { return out.join(w, list) })
	}
	if err != nil {
		return nil, cli.EnvironmentError("%w", err)
	}
	found, v, err := fold.Keep([]string{out.File}, nil, func(rec fold.Record) result.Document { return rec.Document })
	if err != nil {
		return nil, cli.EnvironmentError("%w", err)
	}
	if len(v.Problems) > 0 {
		return nil, v.Problems[0]
	}
	side := &compare.Side{}
	for _, a := range v.Answers {
		side.Add(found[a.Case])
	}
	out.Trends = append(out.Trends, compare.Trends(side)...)
	return out, nil
}

// text prints the trends by case.
func (t *historyOutput) text(s cli.Streams) {
	fmt.Fprintf(s.Out, "%s in %s\n", plural.Count(len(t.Runs), "run", "runs"), t.File)
	if len(t.Trends) == 0 {
		return
	}
	lines := &table.Table{Columns: append(table.Text("case", "metric", "at", "trend"), table.Figures("last µs", "change")...)}
	for _, one := range t.Trends {
		bars, last, change := one.Columns()
		lines.Rows = append(lines.Rows, []string{one.CaseID, one.Metric, one.At, bars, last, change})
	}
	width, ok := s.Terminal(s.Out)
	if !ok {
		width = 80
	}
	fmt.Fprint(s.Out, "\n"+strings.TrimSuffix(lines.Text(width), "\n")+"\n\nchange: of the last run from the median of the runs before it\n")
}
