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

// studyLimit is the maximum size of a manifest, and of each file of a study, in bytes.
const studyLimit = 64 << 20

// studying has the arguments of cxrun study.
type studying struct {
	cli.Streams
	file, dir   string
	fast, check bool
}

func newStudy(s cli.Streams) *cobra.Command {
	r := studying{Streams: s}
	cmd := &cobra.Command{
		Use:   "study FILE -o DIR",
		Short: "Simulate and measure a manifest's cases; render rows and figures",
		Long: `Simulate the cases of a manifest. Measure, on this machine, the cases and the overlaps of
computation and communication for which it asks. Write into a directory: rows.ndjson and
rows.csv, with simulated, measured and published figures, and an SVG for each figure.
Cases that are measured and simulated are in errors.csv, too, and a line for each says how
far the simulated times are off. Equal manifests and measurements give equal bytes.

Rows of an earlier run whose program, topology, model and size are the same are taken
over, and so are the models that it measured with the same backend, ranks, sizes and
buffers. --fast only takes over rows, and fails if one is missing. --check simulates
everything, measures and writes nothing, and fails if a file of the directory differs or
does not belong to the study. Remove the directory to measure again.

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
			r.file = args[0]
			return r.run(c)
		},
	}
	cmd.Flags().StringVarP(&r.dir, "output", "o", "", "write into `DIR`")
	_ = cmd.MarkFlagRequired("output") // fails only for unknown flags
	cmd.Flags().BoolVar(&r.fast, "fast", false, "simulate nothing: take rows of an earlier run over, and fail if one is missing")
	cmd.Flags().BoolVar(&r.check, "check", false, "write nothing: fail if a file in the directory differs from the manifest's, or does not belong there")
	cmd.MarkFlagsMutuallyExclusive("fast", "check")
	return cmd
}

// without returns the flag that keeps the study from measuring, or "" if there is none.
func (r *studying) without() string {
	switch {
	case r.fast:
		return "--fast"
	case r.check:
		return "--check"
	}
	return ""
}

func (r *studying) run(c *cobra.Command) error {
	m, err := r.read()
	if err != nil {
		return cli.UsageError("%w", err)
	}
	known, err := earlierRows(r.dir)
	if err != nil {
		return err
	}
	defer whileRead(c)()
	plan, err := m.Plan(known)
	if err != nil {
		return cli.UsageError("%s: %w", r.file, err)
	}
	var measurer modelMeasurer
	if r.without() == "" {
		measurer = newStudyMeasurer(r.Streams, plan.Unmeasured())
	}
	remeasured, err := r.measuredModels(c.Context(), m, measurer)
	if err != nil {
		return err
	}
	if plan, err = m.Plan(known); err != nil { // with the models that were measured
		return cli.UsageError("%s: %w", r.file, err)
	}
	if err := plan.CheckKnown(); err != nil {
		return cli.UsageError("%s: %w", r.rowsFile(), err)
	}
	for _, name := range remeasured {
		if n := plan.Predicted(name); n > 0 {
			r.Tell("warning: %s measured with another model %q: remove %s to measure them with this one", plural.Count(n, "row was", "rows were"), name, r.dir)
		}
	}
	if err := r.complete(plan); err != nil {
		return err
	}
	rows, made, failed := plan.Rows(c.Context(), measurer, r.check)
	failed = interrupted(c.Context(), failed)
	if rows == nil && c.Context().Err() == nil {
		return cli.UsageError("%s: %w", r.file, failed)
	}
	if failed != nil && (rows == nil || r.without() != "") {
		return failed
	}
	if err := r.finish(m, plan, rows, made); err != nil {
		return err
	}
	return failed
}

// finish writes the files of the study and prints what they contain; with --check, it compares
// them with the files in the directory instead.
func (r *studying) finish(m *study.Manifest, plan *study.Plan, rows []study.Row, made study.Made) error {
	files, err := m.Render(rows)
	if err != nil {
		return err
	}
	if r.check {
		if err := plan.CheckTimes(rows); err != nil {
			return fmt.Errorf("%s: %w", r.rowsFile(), err)
		}
		return r.compare(files)
	}
	if err := writeStudy(r.dir, files); err != nil {
		return cli.EnvironmentError("%w", err)
	}
	fmt.Fprintf(r.Out, "%s: %s, %d simulated and %d measured now; %s in %s\n",
		m.Title, plural.Count(len(rows), "row", "rows"), made.Simulated, made.Measured, plural.Count(len(files), "file", "files"), r.dir)
	if devices := study.Devices(rows); len(devices) > 1 {
		r.Tell("warning: the rows were measured on %s: remove the directory to measure all of them on one machine", strings.Join(devices, " and on "))
	}
	for _, c := range m.Compare(rows) {
		fmt.Fprintln(r.Out, c.String())
	}
	return nil
}

// read reads the manifest, and the files beside it that it names.
func (r *studying) read() (*study.Manifest, error) {
	data, err := safefile.Read(r.file, studyLimit)
	if err != nil {
		return nil, err
	}
	return study.Read(r.file, data, func(file string) ([]byte, error) {
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(r.file), file)
		}
		return safefile.Read(file, studyLimit)
	})
}

func (r *studying) rowsFile() string { return filepath.Join(r.dir, study.RowsFile) }

// complete returns an error if --fast or --check is given and a row that they cannot make is missing.
func (r *studying) complete(plan *study.Plan) error {
	var origins []string
	switch {
	case r.fast:
		origins = []string{study.Measured, study.Simulated}
	case r.check:
		origins = []string{study.Measured}
	}
	if missing := plan.Missing(origins...); len(missing) > 0 {
		return fmt.Errorf("%s lacks %s: %s; run without %s", r.rowsFile(), plural.Count(len(missing), "row", "rows"), firstOf(missing), r.without())
	}
	return nil
}

// interrupted returns errInterrupted in place of an error if ctx has ended.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// firstOf lists the first three names, and how many more there are.
func firstOf(names []string) string {
	const maxShown = 3
	if len(names) <= maxShown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxShown], ", "), len(names)-maxShown)
}

// measuredModels reads the measured models from the files of an earlier run, or measures and writes them. It
// measures a model again if its file was not measured as the manifest says now. It returns the names of the
// models that it measured.
func (r *studying) measuredModels(ctx context.Context, m *study.Manifest, measurer modelMeasurer) (now []string, err error) {
	all, without := m.Measured(), r.without()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		pairs := all[name]
		path, head := filepath.Join(r.dir, study.ModelFile(name)), pairs.Head()
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
			return nil, fmt.Errorf("%s: model %q: %w", r.file, name, err)
		}
		if stale {
			r.Tell("model %q was measured again: %s was of other buffers, ranks or sizes", name, path)
		}
		now = append(now, name)
		m.SetModel(name, model)
		content, err := m.MeasuredModel(name)
		if err != nil {
			return nil, err
		}
		if err := writeStudy(r.dir, map[string][]byte{study.ModelFile(name): content}); err != nil {
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

// compare compares the files of the directory with what they should be.
func (r *studying) compare(files map[string][]byte) error {
	var differ, strange []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		have, err := safefile.Read(filepath.Join(r.dir, name), studyLimit)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cli.UsageError("%w", err)
		}
		if err != nil || !bytes.Equal(have, files[name]) {
			differ = append(differ, name)
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("%s: %s missing or different from the manifest's; run without --check", r.dir, strings.Join(differ, ", "))
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return cli.UsageError("%w", err)
	}
	for _, e := range entries {
		if files[e.Name()] == nil {
			strange = append(strange, e.Name())
		}
	}
	if len(strange) > 0 {
		return fmt.Errorf("%s: not files of the manifest: %s; remove files of earlier manifests", r.dir, strings.Join(strange, ", "))
	}
	fmt.Fprintf(r.Out, "%s in %s: as the manifest gives them\n", plural.Count(len(files), "file", "files"), r.dir)
	return nil
}
