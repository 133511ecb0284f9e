package study

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// Origins of rows.
const (
	Simulated = "simulated"
	Measured  = "measured"
	External  = "external" // published by others
)

// Row is one point of a series.
type Row struct {
	// Key identifies what the row follows from: program, topology, model and size, or the
	// reference.
	Key    string `json:"key"`
	Origin string `json:"origin"`
	Series string `json:"series"`
	Bytes  int64  `json:"bytes"` // of the whole vector
	// Picoseconds is the time from the common start of all ranks to the end of the last; of
	// measured rows the median.
	Picoseconds int64  `json:"picoseconds"`
	Collective  string `json:"collective,omitempty"`
	Algorithm   string `json:"algorithm,omitempty"`
	Ranks       int    `json:"ranks,omitempty"`
	Topology    string `json:"topology,omitempty"`
	Model       string `json:"model,omitempty"`
	Backend     string `json:"backend,omitempty"`
	Device      string `json:"device,omitempty"` // that a measured row is of, as documents name it
	Source      string `json:"source,omitempty"`
	Date        string `json:"date,omitempty"`

	line int // of the file that the row was read from
}

// key is a hash of values.
func key(values ...any) string {
	h := sha256.New()
	for _, v := range values {
		fmt.Fprintf(h, "%#v\n", v)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// planned is a row without its time, and how to find that.
type planned struct {
	Row
	program *schedule.Program
	machine simulate.Machine
	count   int64 // elements
	of      any   // the *Case or *Overlap
	// contender is the one of an overlap that the row is of; empty for a case.
	contender string
}

// Measurer measures on this machine. Sizes are bytes, ascending; times are in their order. Once ctx has
// ended, it measures nothing more, but still returns what it has measured before.
type Measurer interface {
	// Case returns the median times of a case at sizes of the whole vector, of elements of four
	// bytes. They have no contender.
	Case(ctx context.Context, c *Case, sizes []int64) (Times, error)
	// Overlap returns the median times of an overlap, at sizes of its communication.
	Overlap(ctx context.Context, o *Overlap, sizes []int64) (Times, error)
}

// Times are what was measured on a device: by size and contender.
type Times struct {
	Device string
	At     []map[string]simulate.Picoseconds
}

// Made counts rows that were not taken over.
type Made struct{ Simulated, Measured int }

// plan lists the rows of the manifest, sorted by series and bytes.
func (m *Manifest) plan() ([]planned, error) {
	var out []planned
	for i := range m.Cases {
		c := &m.Cases[i]
		p, err := c.program()
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		if err := p.WriteText(&text); err != nil {
			return nil, err
		}
		if c.Backend != "" {
			for _, n := range m.Elements {
				out = append(out, planned{Row: Row{
					Key:    key(text.String(), c.Backend, c.Buffers, n, m.ElementBytes),
					Origin: Measured, Series: c.Name + " on " + c.Backend, Bytes: n * m.ElementBytes,
					Collective: c.Collective, Algorithm: c.Algorithm, Ranks: c.Ranks, Backend: c.Backend,
				}, of: c})
			}
		}
		for _, name := range c.Models {
			machine, err := c.machine(m.Models[name])
			if err != nil {
				return nil, err
			}
			for _, n := range m.Elements {
				out = append(out, planned{Row: Row{
					Key:    key(simulate.Version, text.String(), machine.Topology.Name, m.Models[name].Model, n, m.ElementBytes),
					Origin: Simulated, Series: c.Name + " " + name, Bytes: n * m.ElementBytes,
					Collective: c.Collective, Algorithm: c.Algorithm, Ranks: c.Ranks, Topology: machine.Topology.Name, Model: name,
				}, program: p, machine: machine, count: n, of: c})
			}
		}
	}
	for i := range m.Overlaps {
		out = append(out, m.Overlaps[i].plan()...)
	}
	for _, r := range m.References {
		for bytes, ns := range r.Points {
			out = append(out, planned{Row: Row{
				Key: key(r.Source, r.Date, bytes, ns), Origin: External, Series: r.Name, Bytes: bytes,
				Picoseconds: int64(simulate.FromNanoseconds(ns)), Source: r.Source, Date: r.Date,
			}})
		}
	}
	slices.SortFunc(out, func(a, b planned) int {
		return cmp.Or(cmp.Compare(a.Series, b.Series), cmp.Compare(a.Bytes, b.Bytes))
	})
	return out, nil
}

// unmeasuredRow is the index of a row without a time, and its contender as in planned.
type unmeasuredRow struct {
	row       int
	contender string
}

// Rows returns the rows of the manifest, and how many of them are new: known has rows by key that
// are taken over instead. Programs are verified before they are simulated. A case that cannot be
// measured has no rows; the error, which comes with the rows of the others, names it.
func (m *Manifest) Rows(ctx context.Context, known map[string]Row, measurer Measurer) (rows []Row, made Made, err error) {
	all, err := m.plan()
	if err != nil {
		return nil, made, err
	}
	verified := map[*schedule.Program]bool{}
	unmeasured := map[any][]unmeasuredRow{}
	first, same := map[string]int{}, map[int]int{} // rows to be measured by key, and by later rows with that key
	for _, p := range all {
		row := p.Row
		if have, ok := known[p.Key]; ok && p.Origin != External {
			row.Picoseconds, row.Device = have.Picoseconds, have.Device
		} else if earlier, ok := first[p.Key]; ok {
			same[len(rows)] = earlier
		} else if p.Origin == Measured {
			first[p.Key] = len(rows)
			unmeasured[p.of] = append(unmeasured[p.of], unmeasuredRow{len(rows), p.contender})
		} else if p.Origin == Simulated {
			if !verified[p.program] {
				report, err := schedule.Verify(ctx, p.program)
				if err == nil {
					err = report.Err()
				}
				if err != nil {
					return nil, made, fmt.Errorf("%s: %w", p.Series, err)
				}
				verified[p.program] = true
			}
			r, err := simulate.Run(ctx, p.program, p.machine, p.count, m.ElementBytes)
			if err != nil {
				return nil, made, fmt.Errorf("%s: %w", p.Series, err)
			}
			row.Picoseconds = int64(r.Makespan)
			made.Simulated++
		}
		if row.Picoseconds <= 0 && p.Origin != Measured {
			return nil, made, fmt.Errorf("%s at %d bytes: the model gives a time of %s ns: raise its constants", p.Series, p.Bytes, nanoseconds(row.Picoseconds))
		}
		rows = append(rows, row)
	}
	measure := func(of any, times func(sizes []int64) (Times, error)) {
		at := unmeasured[of]
		if len(at) == 0 {
			return
		}
		var sizes []int64
		for _, u := range at {
			sizes = append(sizes, rows[u.row].Bytes)
		}
		slices.Sort(sizes)
		sizes = slices.Compact(sizes)
		measured, failed := times(sizes)
		if failed != nil {
			failed = fmt.Errorf("%s: %w", rows[at[0].row].Series, failed)
			if err != nil {
				failed = fmt.Errorf("%w; %w", err, failed)
			}
			err = failed
			return
		}
		for _, u := range at {
			i, _ := slices.BinarySearch(sizes, rows[u.row].Bytes)
			rows[u.row].Picoseconds, rows[u.row].Device = int64(measured.At[i][u.contender]), measured.Device
		}
		made.Measured += len(at)
	}
	for i := range m.Cases {
		c := &m.Cases[i]
		measure(c, func(sizes []int64) (Times, error) { return measurer.Case(ctx, c, sizes) })
	}
	for i := range m.Overlaps {
		o := &m.Overlaps[i]
		measure(o, func(sizes []int64) (Times, error) { return measurer.Overlap(ctx, o, sizes) })
	}
	for later, earlier := range same {
		rows[later].Picoseconds, rows[later].Device = rows[earlier].Picoseconds, rows[earlier].Device
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Picoseconds == 0 && r.Origin == Measured })
	return rows, made, cmp.Or(err, ctx.Err())
}

// Unmeasured returns the sizes, in bytes, at which rows of measured cases are not known.
func (m *Manifest) Unmeasured(known map[string]Row) (map[*Case][]int64, error) {
	all, err := m.plan()
	if err != nil {
		return nil, err
	}
	out, listed := map[*Case][]int64{}, map[string]bool{}
	for _, p := range all {
		c, ok := p.of.(*Case)
		if _, have := known[p.Key]; ok && p.Origin == Measured && !have && !listed[p.Key] {
			listed[p.Key] = true
			out[c] = append(out[c], p.Bytes)
		}
	}
	return out, nil
}

// Devices lists what the measured rows were measured on, ascending.
func Devices(rows []Row) []string {
	found := map[string]bool{}
	for _, r := range rows {
		if r.Device != "" {
			found[r.Device] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Predicted returns how many rows are known of the measured cases that have a model.
func (m *Manifest) Predicted(model string, known map[string]Row) (int, error) {
	all, err := m.plan()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range all {
		c, ok := p.of.(*Case)
		if _, have := known[p.Key]; ok && have && p.Origin == Measured && slices.Contains(c.Models, model) {
			n++
		}
	}
	return n, nil
}

// Missing lists the rows of the manifest that have one of the origins and are not known, as "SERIES at
// N bytes".
func (m *Manifest) Missing(known map[string]Row, origins ...string) ([]string, error) {
	all, err := m.plan()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range all {
		if _, ok := known[p.Key]; !ok && slices.Contains(origins, p.Origin) {
			out = append(out, fmt.Sprintf("%s at %d bytes", p.Series, p.Bytes))
		}
	}
	return out, nil
}

// CheckKnown returns an error with the line of the first row that does not have the origin,
// size and case of the manifest's row with its key.
func (m *Manifest) CheckKnown(known map[string]Row) error {
	all, err := m.plan()
	if err != nil {
		return err
	}
	var damaged error
	first := 0
	for _, p := range all {
		have, ok := known[p.Key]
		if !ok || p.Origin == External || first > 0 && have.line > first {
			continue
		}
		// The names of cases and models can have changed, and two algorithms can give one program.
		want := p.Row
		want.Series, want.Algorithm, want.Model, want.Picoseconds, want.Device, want.line = have.Series, have.Algorithm, have.Model, have.Picoseconds, have.Device, have.line
		if have != want {
			first = have.line
			damaged = fmt.Errorf("line %d: %s: the row differs from %s at %d bytes (%s), which has its key: remove the line",
				have.line, have.Series, p.Series, p.Bytes, p.Origin)
		}
	}
	return damaged
}

// CheckTimes returns an error with the line of the first known row whose time is not the one that
// was simulated for a row with its key.
func CheckTimes(known map[string]Row, simulated []Row) error {
	var damaged error
	first := 0
	for _, r := range simulated {
		have, ok := known[r.Key]
		if !ok || r.Origin != Simulated || have.Picoseconds == r.Picoseconds || first > 0 && have.line > first {
			continue
		}
		first = have.line
		damaged = fmt.Errorf("line %d: %s at %d bytes: the row has %s ns, and the simulator gives %s ns: remove the line",
			have.line, have.Series, have.Bytes, nanoseconds(have.Picoseconds), nanoseconds(r.Picoseconds))
	}
	return damaged
}

// check returns an error if no run wrote the row.
func (r *Row) check() error {
	switch {
	case r.Key == "" || r.Series == "":
		return errors.New("the row has no key or no series")
	case r.Origin != Simulated && r.Origin != Measured && r.Origin != External:
		return fmt.Errorf("%s: origin %q, must be %s, %s or %s", r.Series, r.Origin, Simulated, Measured, External)
	case r.Bytes < 1 || r.Picoseconds < 1:
		return fmt.Errorf("%s: %d bytes in %d picoseconds, must both be above 0", r.Series, r.Bytes, r.Picoseconds)
	}
	return nil
}

// Known reads the rows of an earlier run, by key. An error names the line. Two rows with one key
// are an error if they are of one series or differ in time.
func Known(data []byte) (map[string]Row, error) {
	known := map[string]Row{}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		r := Row{line: n}
		err := json.Unmarshal(line, &r)
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			err = fmt.Errorf("%s: unexpected %s", cmp.Or(wrong.Field, "the row"), wrong.Value)
		}
		if err == nil {
			err = r.check()
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w: remove the line", n, err)
		}
		if r.Origin == External {
			continue
		}
		// Cases whose programs are equal have rows with one key, and one time.
		if first, ok := known[r.Key]; ok && (first.Series == r.Series || first.Picoseconds != r.Picoseconds) {
			return nil, fmt.Errorf("line %d: %s at %d bytes: the row has the key of line %d: remove one of the two lines", n, r.Series, r.Bytes, first.line)
		}
		known[r.Key] = r
	}
	return known, nil
}

// nanoseconds prints a time with all its digits.
func nanoseconds(ps int64) string { return fmt.Sprintf("%d.%03d", ps/1000, ps%1000) }

// ndjson and table are the rows as files.
func ndjson(rows []Row) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, r := range rows {
		if err := e.Encode(r); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func table(rows []Row) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	lines := [][]string{{"origin", "series", "collective", "algorithm", "ranks", "topology", "model", "backend", "device", "bytes", "latency_ns", "source", "date", "key"}}
	for _, r := range rows {
		ranks := ""
		if r.Ranks > 0 {
			ranks = strconv.Itoa(r.Ranks)
		}
		lines = append(lines, []string{
			r.Origin, r.Series, r.Collective, r.Algorithm, ranks, r.Topology, r.Model, r.Backend, r.Device,
			strconv.FormatInt(r.Bytes, 10), nanoseconds(r.Picoseconds), r.Source, r.Date, r.Key,
		})
	}
	err := w.WriteAll(lines)
	return b.Bytes(), err
}
