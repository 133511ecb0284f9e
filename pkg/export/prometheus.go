package export

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/figure"
)

// prometheusForm writes gauges for the textfile collector of node_exporter, in base units. It keeps all lines
// until Close, since the lines of one metric must be adjacent.
type prometheusForm struct {
	w     io.Writer
	run   string            // the only run
	lines map[string]string // by metric, then by its lines; sorted when written
	help  map[string]string
}

func newPrometheus(w io.Writer, _ string) (Form, error) {
	return &prometheusForm{w: w, lines: map[string]string{}, help: map[string]string{}}, nil
}

// base maps units to the base units of Prometheus: suffix of names, and conversion factor.
var base = map[string]struct {
	suffix string
	factor float64
}{
	figure.Microseconds:  {"_seconds", 1e-6},
	figure.GBPerSecond:   {"_bytes_per_second", 1e9},
	figure.PerSecond:     {"_per_second", 1},
	figure.Dimensionless: {"", 1},
}

// inBase renames a metric whose unit is in its name, and converts it.
var inBase = map[string]struct {
	name   string
	factor float64
}{"cpu_s_per_gb": {"cpu_seconds_per_byte", 1e-9}}

// Add implements Form. It omits figures of rows that are incomplete or failed.
func (f *prometheusForm) Add(c Case) error {
	rows := c.Rows()
	attempts := rows[0]
	if f.run != "" && f.run != attempts.RunID {
		return fmt.Errorf("%w: %s: a textfile holds the figures of one run, and these documents are of runs %s and %s; export one run",
			ErrInput, c.Source, f.run, attempts.RunID)
	}
	f.run = attempts.RunID
	f.gauge("case_attempts", "Attempts at the case in its run.", attempts, attempts.Value)
	f.gauge("case_success", "1 if the case succeeded, else 0.", attempts, map[bool]float64{true: 1}[attempts.Passed])
	f.gauge("case_generated_timestamp_seconds", "When the document of the case was written.", attempts,
		float64(attempts.GeneratedAt.UnixMilli())/1e3)
	for _, row := range rows[1:] {
		if row.Complete && row.Passed {
			unit := base[row.Unit]
			name, factor := row.Metric+unit.suffix, unit.factor
			if in, ok := inBase[row.Metric]; ok {
				name, factor = in.name, in.factor
			}
			f.gauge(name, "See docs/export.md.", row, row.Value*factor)
		}
	}
	return nil
}

// gauge adds a line.
func (f *prometheusForm) gauge(name, help string, row Row, value float64) {
	name = "collectivex_" + name
	f.help[name] = help
	var labels []string
	for _, l := range []struct{ name, value string }{
		{"case_id", row.CaseID},
		{"sku", row.SKU},
		{"backend", row.Backend},
		{"library_version", row.LibraryVersion},
		{"family", row.Family},
		{"op_or_phase", row.OpOrPhase},
		{"mode", row.Mode},
		{"dtype", row.DType},
		{"world", cell(row.World)},
		{"nodes", cell(row.Nodes)},
		{row.XName, cell(row.X)},
		{"placement", row.Placement},
		{"src", cell(row.Src)},
		{"dst", cell(row.Dst)},
		{"timing", row.Timing},
		{"stat", row.Stat},
	} {
		if l.value != "" {
			labels = append(labels, l.name+`="`+escape.Replace(l.value)+`"`)
		}
	}
	series := name + "{" + strings.Join(labels, ",") + "}"
	f.lines[series] = strconv.FormatFloat(value, 'g', -1, 64)
}

// escape escapes the value of a label.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Close implements Form.
func (f *prometheusForm) Close() error {
	last := ""
	for _, series := range slices.SortedFunc(maps.Keys(f.lines), bySeries) {
		name, _, _ := strings.Cut(series, "{")
		head := ""
		if name != last {
			head = fmt.Sprintf("# HELP %s %s\n# TYPE %s gauge\n", name, f.help[name], name)
		}
		last = name
		if _, err := fmt.Fprintf(f.w, "%s%s %s\n", head, series, f.lines[series]); err != nil {
			return err
		}
	}
	return nil
}

// bySeries orders series by metric, then by labels, since one name may be a prefix of another.
func bySeries(a, b string) int {
	nameA, labelsA, _ := strings.Cut(a, "{")
	nameB, labelsB, _ := strings.Cut(b, "{")
	if c := strings.Compare(nameA, nameB); c != 0 {
		return c
	}
	return strings.Compare(labelsA, labelsB)
}
