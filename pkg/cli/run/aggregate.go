package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/safefile"
)

func newAggregate(s cli.Streams) *cobra.Command {
	var (
		in          inputs
		matrix, out string
		want        fold.Expected
	)
	cmd := &cobra.Command{
		Use:   "aggregate --in DIR --matrix FILE -o FILE.ndjson",
		Short: "Fold the documents of a run into NDJSON; decide whether it passed",
		Long: `Write every document below the given directories (*.json) and NDJSON files into
one NDJSON file, one document a line, and decide whether the run passed.

The NDJSON is written in any case. The exit code is 1 if a requested case has no
document, if the attempt that counts for a case failed, or if a file is not a
document of this run: damaged, foreign, or of another run, commit or matrix than
the given one. Files that are not regular, such as dangling links, are named on standard
error and do not change the exit code. Without --matrix, missing cases cannot be found.`,
		Example: `  cxrun aggregate --in shards --matrix matrix_full.json -o run.ndjson
  cxrun aggregate --in monday.ndjson --in tuesday.ndjson -o week.ndjson`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			m, err := in.answering(matrix)
			if err != nil {
				return err
			}
			v, err := fold.Fold(in, m, want, out)
			if err != nil {
				return cli.EnvironmentError("%w", err)
			}
			printVerdict(s, v)
			return v.Err()
		},
	}
	in.addFlag(cmd)
	cmd.Flags().StringVar(&matrix, "matrix", "", "check that every case of the matrix in `FILE` has a document")
	cmd.Flags().StringVar(&want.RunID, "run-id", "", "refuse documents of other runs than `ID`")
	cmd.Flags().StringVar(&want.SourceSHA, "source-sha", "", "refuse documents of other commits than `SHA`")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write the NDJSON to `FILE`")
	_ = cmd.MarkFlagRequired("output") // fails only for unknown flags
	return cmd
}

// inputs is the flag --in of the commands that read documents.
type inputs []string

func (in *inputs) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar((*[]string)(in), "in", nil, "read documents below `DIR`, or the lines of a FILE.ndjson; may be repeated")
	_ = cmd.MarkFlagRequired("in") // fails only for unknown flags
}

// check refuses inputs that do not exist or cannot be read.
func (in inputs) check() error {
	for _, path := range in {
		if err := checkInput(path); err != nil {
			return cli.UsageError("--in %w", err)
		}
	}
	return nil
}

// answering checks the inputs and reads the matrix at path, which may be of any version and
// lists the requested cases. It returns nil if path is empty.
func (in inputs) answering(path string) (*plan.Matrix, error) {
	if err := in.check(); err != nil || path == "" {
		return nil, err
	}
	m, err := plan.ReadArchived(path, cli.Version)
	if err != nil {
		return nil, cli.UsageError("%w", err)
	}
	return m, nil
}

func checkInput(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such file or directory; name a directory of documents, or a FILE.ndjson", path)
	case err == nil && !info.IsDir() && !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w or directory; name a directory of documents, or a FILE.ndjson", path, safefile.ErrIrregular)
	}
	return nil
}

// readMatrix reads the matrix at path to run its cells. It must be of this version.
func readMatrix(path string) (*plan.Matrix, error) {
	m, err := plan.ReadFile(path, cli.Version)
	if err != nil {
		return nil, cli.UsageError("%w", err)
	}
	return m, nil
}

// printLeftOut names the files and lines that are not documents of the run, one line each.
func printLeftOut(s cli.Streams, v *fold.Verdict) {
	for _, p := range v.Replaced {
		s.Tell("left out; its case was measured again: %v", p)
	}
	for _, p := range v.Irregular {
		s.Tell("left out; not a document: %v", p)
	}
	for _, p := range v.Problems {
		s.Tell("left out: %v", p)
	}
}

// incomplete returns an error if there were no documents at in, or if damaged files were left
// out.
func incomplete(in []string, v *fold.Verdict) error {
	switch n := len(v.Problems); {
	case len(v.Answers) == 0:
		return noDocument(in...)
	case n > 0:
		return fmt.Errorf("%s left out; fetch or measure damaged documents again, and move other files away", plural.Count(n, "file or line that is not a document was", "files or lines that are not documents were"))
	}
	return nil
}

func noDocument(in ...string) error {
	return fmt.Errorf("no document in %s; name a directory that 'cxrun sweep --out' or 'cxgen fetch' wrote, a FILE.ndjson of 'cxrun aggregate', or a file of 'cxrun bench -J'", strings.Join(in, ", "))
}

// printVerdict names what failed, one line each, and prints counts.
func printVerdict(s cli.Streams, v *fold.Verdict) {
	printLeftOut(s, v)
	for _, id := range v.Missing {
		s.Tell("no document: %s", id)
	}
	for _, id := range v.Unrequested {
		s.Tell("not requested: %s", id)
	}
	for _, a := range v.Failed() {
		s.Tell("%s: %s: %s", a.Status, a.ID, a.Reasons.String())
	}
	fmt.Fprintf(s.Out, "%s of %s, %s and %s left out\n",
		plural.Count(v.Documents, "document", "documents"), plural.Count(len(v.Answers), "case", "cases"),
		plural.Count(v.Duplicates, "duplicate", "duplicates"), plural.Count(len(v.Problems)+len(v.Replaced)+len(v.Irregular), "file", "files"))
}
