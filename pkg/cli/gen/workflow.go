package gen

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/compare"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/workflow"
)

func newWorkflow(s cli.Streams) *cobra.Command {
	var (
		defs                 cli.Definitions
		out, source, release string
		check                bool
		night                workflow.Options // Cron, Baseline and Suite
	)
	cmd := &cobra.Command{
		Use:   "workflow",
		Short: "Write the GitHub Actions workflow",
		Long: `Write the GitHub Actions workflow that plans, runs and folds a sweep. Its inputs
offer the suites, platforms and other names of the definitions.

In a repository other than CollectiveX's own, --source names the commit of
CollectiveX that the workflow builds. --release names the release that it downloads
instead, with the SHA-256 of the release's SHA256SUMS. --definitions names a directory of the
workflow's repository, relative to its root, with the definitions to plan with.

With --cron the workflow also runs by itself, with the presets of its inputs. --baseline
compares such a run with the last successful runs with the same inputs: the job summary and
the report show what is slower and the trend of each case. A cell measures suspects again,
as 'cxrun compare --confirm' does, and fails if they stay slower.`,
		Example: `  cxgen workflow
  cxgen workflow --check
  cxgen workflow --source collectivex/collectivex@0123456789abcdef0123456789abcdef01234567
  cxgen workflow --source collectivex/collectivex@0123456789abcdef0123456789abcdef01234567 --definitions matrix
  cxgen workflow --release v1.2.3@0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  cxgen workflow --cron '0 2 * * *' --baseline 10`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if check && out == "-" {
				return cli.UsageError("--check -o -: name the file to compare with, or leave -o out")
			}
			cat, err := defs.Load()
			if err != nil {
				return err
			}
			options, err := workflowOptions(night, defs, source, release)
			if err != nil {
				return cli.UsageError("%w", err)
			}
			if n := options.Baseline; n != 0 && (n < compare.MinRuns || n > maxHistory) {
				return cli.UsageError("--baseline %d: want %d to %d runs", n, compare.MinRuns, maxHistory)
			}
			if source == "" && release == "" && !ownRepository() {
				return cli.UsageError("outside of CollectiveX's own repository the workflow has nothing to build: name the commit with --source OWNER/NAME@SHA, or a release with --release VERSION@SHA256")
			}
			text, err := workflow.Emit(cat, options)
			if err != nil {
				return cli.UsageError("%w", err)
			}
			switch {
			case check:
				command := options.Command()
				if out != workflow.File {
					command += " -o " + out
				}
				return checkFile(out, text, command)
			case out == "-":
				_, err := s.Out.Write(text)
				return err
			default:
				return writeFile(out, text)
			}
		},
	}
	defs.AddFlag(cmd.Flags())
	cmd.Flags().StringVarP(&out, "output", "o", workflow.File, "write to `FILE`; - is standard output")
	cli.MarkStdout(cmd.Flags(), "output")
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; exit 1 if FILE is not what would be written")
	cmd.Flags().StringVar(&source, "source", "", "build CollectiveX from `REPO@SHA` instead of the workflow's own repository")
	cmd.Flags().StringVar(&release, "release", "", "download the CollectiveX of `VERSION@SHA256` instead of building it")
	cmd.MarkFlagsMutuallyExclusive("source", "release")
	cmd.Flags().StringVar(&night.Cron, "cron", "", "also run at the times of `EXPRESSION`, in UTC, such as '0 2 * * *'")
	cmd.Flags().IntVar(&night.Baseline, "baseline", 0, "compare scheduled runs with the last `N` successful ones; needs --cron")
	cmd.Flags().StringVar(&night.Suite, "suite", "", "preset the input suite to `NAME` (default: smoke)")
	return cmd
}

// workflowOptions returns the options that the flags name.
func workflowOptions(o workflow.Options, defs cli.Definitions, source, release string) (_ workflow.Options, err error) {
	o.Definitions = filepath.ToSlash(defs.Dir)
	if source != "" {
		o.Source, err = workflow.ParseSource(source)
	}
	if release != "" && err == nil {
		o.Release, err = workflow.ParseRelease(release)
	}
	return o, err
}

// ownRepository reports whether the working directory is in a module of CollectiveX.
func ownRepository() bool {
	for dir, err := os.Getwd(); err == nil; dir = filepath.Dir(dir) {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil {
			return bytes.HasPrefix(text, []byte("module github.com/collectivex/collectivex\n"))
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return false
}

// checkFile returns an error unless the content of the file is want, which command writes.
func checkFile(path string, want []byte, command string) error {
	got, err := safefile.Read(path, 16<<20)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s is missing; write it with: %s", path, command)
	case err != nil:
		return err
	case bytes.Equal(got, want):
		return nil
	}
	line := 1 + bytes.Count(got[:common(got, want)], []byte("\n"))
	return fmt.Errorf("%s:%d: does not match the definitions; write it again with: %s", path, line, command)
}

func common(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func writeFile(path string, text []byte) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return cli.EnvironmentError("write %s: %w; name another file with -o", path, failed.Err)
	}
	return err
}
