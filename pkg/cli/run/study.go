package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/schedule/study"
)

// studyLimit is the most bytes of a manifest, and of each file of a study.
const studyLimit = 64 << 20

func newStudy(s cli.Streams) *cobra.Command {
	var (
		dir         string
		fast, check bool
	)
	cmd := &cobra.Command{
		Use:   "study FILE -o DIR",
		Short: "Simulate and measure the cases of a manifest, and render rows and figures",
		Long: `Simulate the cases of a manifest, measure those that it wants measured on this machine, and
its computation beside communication, and write into a directory: rows.ndjson and rows.csv,
with simulated, measured and published figures, and an SVG for each figure of the manifest.
Cases that are measured and simulated are in errors.csv, too, and a line for each says how
far the simulated times are off. Equal manifests and measurements give equal bytes.

Rows of an earlier run whose program, topology, model and size are the same are taken
over, and so are the models that it measured with the same backend, ranks, sizes and
buffers. --fast takes over rows alone, and fails if
one is missing. --check simulates everything, measures and writes nothing, and fails if a
file of the directory differs or does not belong to the study. Remove the directory to measure again.

The exit code is 1 if a case fails, --fast lacks a row or --check finds a difference, 2 if
the manifest, a model or a row of the earlier run is wrong, and 3 if a case cannot be
measured on this machine or a file cannot be written.`,
		Example: `  cxrun study studies/all-reduce.yaml -o all-reduce
  cxrun study studies/all-reduce.yaml -o all-reduce --check
  cxrun study studies/all-gather.yaml -o all-gather
  cxrun study studies/overlap.yaml -o overlap
  cxrun study studies/prediction-host.yaml -o prediction`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("study needs the file of a manifest, such as studies/all-reduce.yaml")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if dir == "" {
				return cli.UsageError("study needs a directory for its files: add -o DIR")
			}
			if fast && check {
				return cli.UsageError("study takes --fast or --check, not both")
			}
			data, err := safefile.Read(args[0], studyLimit)
			if err != nil {
				return cli.UsageError("%w", err)
			}
			m, err := study.Read(args[0], data, func(file string) ([]byte, error) {
				if !filepath.IsAbs(file) {
					file = filepath.Join(filepath.Dir(args[0]), file)
				}
				return safefile.Read(file, studyLimit)
			})
			if err != nil {
				return cli.UsageError("%w", err)
			}
			known, err := earlierRows(dir)
			if err != nil {
				return err
			}
			defer whileRead(c)()
			var measurer modelMeasurer = noMeasurer{}
			without := "" // the flag that keeps the study from measuring
			switch {
			case fast:
				without = "--fast"
			case check:
				without = "--check"
			default:
				unmeasured, err := m.Unmeasured(known)
				if err != nil {
					return cli.UsageError("%s: %w", args[0], err)
				}
				measurer = newStudyMeasurer(s, unmeasured)
			}
			remeasured, err := measuredModels(c.Context(), s, m, args[0], dir, without, measurer)
			if err != nil {
				return err
			}
			if err := m.CheckKnown(known); err != nil {
				return cli.UsageError("%s: %w", filepath.Join(dir, study.RowsFile), err)
			}
			for _, name := range remeasured {
				n, err := m.Predicted(name, known)
				if err != nil {
					return err
				}
				if n > 0 {
					s.Tell("warning: %s measured with another model %q: remove %s to measure them with this one", plural.Count(n, "row was", "rows were"), name, dir)
				}
			}
			takenOver := known
			if check {
				takenOver = maps.Clone(known)
				maps.DeleteFunc(takenOver, func(_ string, r study.Row) bool { return r.Origin == study.Simulated })
			}
			if without != "" {
				origins := []string{study.Measured}
				if fast {
					origins = append(origins, study.Simulated)
				}
				missing, err := m.Missing(known, origins...)
				if err != nil {
					return err
				}
				if len(missing) > 0 {
					return fmt.Errorf("%s lacks %s: %s; run without %s", filepath.Join(dir, study.RowsFile),
						plural.Count(len(missing), "row", "rows"), firstOf(missing), without)
				}
			}
			rows, made, failed := m.Rows(c.Context(), takenOver, measurer)
			failed = interrupted(c.Context(), failed)
			if rows == nil && c.Context().Err() == nil {
				return cli.UsageError("%s: %w", args[0], failed)
			}
			if failed != nil && (rows == nil || fast || check) {
				return failed
			}
			files, err := m.Render(rows)
			if err != nil {
				return err
			}
			if check {
				if err := study.CheckTimes(known, rows); err != nil {
					return fmt.Errorf("%s: %w", filepath.Join(dir, study.RowsFile), err)
				}
				var models []string
				for name := range m.Measured() {
					models = append(models, study.ModelFile(name))
				}
				return checkStudy(s, dir, files, models)
			}
			if err := writeStudy(dir, files); err != nil {
				return cli.EnvironmentError("%w", err)
			}
			fmt.Fprintf(s.Out, "%s: %s, %d simulated and %d measured now; %s in %s\n",
				m.Title, plural.Count(len(rows), "row", "rows"), made.Simulated, made.Measured, plural.Count(len(files), "file", "files"), dir)
			if devices := study.Devices(rows); len(devices) > 1 {
				s.Tell("warning: the rows were measured on %s: remove the directory to measure all of them on one machine", strings.Join(devices, " and on "))
			}
			for _, c := range m.Compare(rows) {
				fmt.Fprintln(s.Out, c.String())
			}
			return failed
		},
	}
	cmd.Flags().StringVarP(&dir, "output", "o", "", "write into `DIR`")
	cmd.Flags().BoolVar(&fast, "fast", false, "simulate nothing: take rows of an earlier run over, and fail if one is missing")
	cmd.Flags().BoolVar(&check, "check", false, "write nothing: fail if a file in the directory is not what the manifest gives, or does not belong there")
	return cmd
}

// interrupted is the error of what ended with ctx: that, rather than all that could not be done
// any more.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// firstOf lists the first three of names, and how many are left.
func firstOf(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// measuredModels takes the models that are measured from the files of an earlier run, or measures
// and keeps them. It measures a model again whose file does not say that it was measured as the
// manifest wants, and returns the names of those that it measured. without is the flag that keeps it from
// measuring, if there is one.
func measuredModels(ctx context.Context, s cli.Streams, m *study.Manifest, manifest, dir, without string, measurer modelMeasurer) (now []string, err error) {
	all := m.Measured()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		pairs := all[name]
		path, head := filepath.Join(dir, study.ModelFile(name)), pairs.Head()
		data, err := safefile.Read(path, studyLimit)
		if err == nil && bytes.HasPrefix(data, []byte(head)) {
			model, err := simulate.ReadModel(path, data)
			if err != nil {
				return nil, cli.UsageError("%w: remove the file to measure again", err)
			}
			m.SetModel(name, model)
			continue
		}
		stale := err == nil
		if !stale && !errors.Is(err, fs.ErrNotExist) {
			return nil, cli.EnvironmentError("%w", err)
		}
		if stale && without != "" {
			return nil, fmt.Errorf("%s does not begin with %q, as the manifest measures model %q: run without %s to measure it again", path, strings.TrimSpace(head), name, without)
		}
		if without != "" {
			return nil, fmt.Errorf("model %q of %s: not measured yet: run without %s", name, path, without)
		}
		model, err := measurer.Model(ctx, pairs)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("%w: model %q and the cases that were measured with it are lost; the next run measures them again", errInterrupted, name)
		case err != nil:
			return nil, fmt.Errorf("%s: model %q: %w", manifest, name, err)
		}
		if stale {
			s.Tell("model %q was measured again: %s was of other buffers, ranks or sizes", name, path)
		}
		now = append(now, name)
		m.SetModel(name, model)
		content, err := m.MeasuredModel(name)
		if err != nil {
			return nil, err
		}
		if err := writeStudy(dir, map[string][]byte{study.ModelFile(name): content}); err != nil {
			return nil, cli.EnvironmentError("%w", err)
		}
	}
	return now, nil
}

// earlierRows reads the rows of an earlier run; there are none if the file is missing.
func earlierRows(dir string) (map[string]study.Row, error) {
	path := filepath.Join(dir, study.RowsFile)
	data, err := safefile.Read(path, studyLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]study.Row{}, nil
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, cli.EnvironmentError("-o %s: is not a directory: name another one", dir)
	}
	if err != nil {
		return nil, cli.EnvironmentError("%w", err)
	}
	rows, err := study.Known(data)
	if err != nil {
		return nil, cli.UsageError("%s: %w", path, err)
	}
	return rows, nil
}

func writeStudy(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, data := range files {
		if err := writeFile(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file whole or not at all.
func writeFile(path string, data []byte) error {
	return safefile.WriteAtomic(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// checkStudy compares the files of a directory with what they should be; models are the names of
// those that the study measured.
func checkStudy(s cli.Streams, dir string, files map[string][]byte, models []string) error {
	var differ, strange []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		have, err := safefile.Read(filepath.Join(dir, name), studyLimit)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cli.UsageError("%w", err)
		}
		if err != nil || !bytes.Equal(have, files[name]) {
			differ = append(differ, name)
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("%s: %s missing or not what the manifest gives; run without --check", dir, strings.Join(differ, ", "))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return cli.UsageError("%w", err)
	}
	for _, e := range entries {
		if _, ok := files[e.Name()]; !ok && !slices.Contains(models, e.Name()) {
			strange = append(strange, e.Name())
		}
	}
	if len(strange) > 0 {
		return fmt.Errorf("%s: the manifest does not give %s; remove what an earlier manifest left", dir, strings.Join(strange, ", "))
	}
	fmt.Fprintf(s.Out, "%s in %s: as the manifest gives them\n", plural.Count(len(files), "file", "files"), dir)
	return nil
}
