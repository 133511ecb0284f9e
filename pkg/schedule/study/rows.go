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
	// Key is a hash of all that determines the row: program, topology, model and size, or the reference.
	Key    string `json:"key"`
	Origin string `json:"origin"`
	Series string `json:"series"`
	Bytes  int64  `json:"bytes"` // of the whole vector
	// Picoseconds is the time from the common start of all ranks to the end of the last rank. In measured
	// rows it is the median.
	Picoseconds int64  `json:"picoseconds"`
	Collective  string `json:"collective,omitempty"`
	Algorithm   string `json:"algorithm,omitempty"`
	Ranks       int    `json:"ranks,omitempty"`
	Topology    string `json:"topology,omitempty"`
	Model       string `json:"model,omitempty"`
	Backend     string `json:"backend,omitempty"`
	Device      string `json:"device,omitempty"` // the device of a measured row, named as in documents
	Source      string `json:"source,omitempty"`
	Date        string `json:"date,omitempty"`

	line int // in the file that the row was read from
}

// key returns a hash of values.
func key(values ...any) string {
	h := sha256.New()
	for _, v := range values {
		fmt.Fprintf(h, "%#v\n", v)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// planned is a row without its time, and what is needed to get the time.
type planned struct {
	Row
	program *schedule.Program
	machine simulate.Machine
	count   int64 // elements
	of      any   // the *Case or *Overlap of the row; nil for a reference
	// contender is the contender of an overlap; empty for a case.
	contender string
}

// Measurer measures on this machine. Sizes are in bytes and ascending, and Times.At is in their order. Once
// ctx has ended, a Measurer measures nothing more, but still returns what it has measured before.
type Measurer interface {
	// Case returns the median times of a case at sizes of the whole vector, whose elements have four
	// bytes. The contender is "".
	Case(ctx context.Context, c *Case, sizes []int64) (Times, error)
	// Overlap returns the median times of an overlap at sizes of its communication.
	Overlap(ctx context.Context, o *Overlap, sizes []int64) (Times, error)
}

// Times are median times measured on one device. At has them by size, then by contender.
type Times struct {
	Device string
	At     []map[string]simulate.Picoseconds
}

// Made counts the rows that were not taken over from an earlier run.
type Made struct{ Simulated, Measured int }

// Plan has the rows of a manifest without their times, sorted by series and bytes.
type Plan struct {
	*Manifest
	rows  []planned
	known map[string]Row // rows of an earlier run, by key
}

// Plan returns the rows of the manifest without their times. known are the rows of an earlier run, by key,
// whose times are reused. Plan fails if a case has no program or machine.
func (m *Manifest) Plan(known map[string]Row) (*Plan, error) {
	p := &Plan{Manifest: m, known: known}
	for i := range m.Cases {
		rows, err := m.caseRows(&m.Cases[i])
		if err != nil {
			return nil, err
		}
		p.rows = append(p.rows, rows...)
	}
	for i := range m.Overlaps {
		p.rows = append(p.rows, m.Overlaps[i].rows()...)
	}
	for _, r := range m.References {
		for bytes, ns := range r.Points {
			p.rows = append(p.rows, planned{Row: Row{
				Key: key(r.Source, r.Date, bytes, ns), Origin: External, Series: r.Name, Bytes: bytes,
				Picoseconds: int64(simulate.FromNanoseconds(ns)), Source: r.Source, Date: string(r.Date),
			}})
		}
	}
	slices.SortFunc(p.rows, func(a, b planned) int {
		return cmp.Or(cmp.Compare(a.Series, b.Series), cmp.Compare(a.Bytes, b.Bytes))
	})
	return p, nil
}

// caseRows returns the measured rows of a case, if it has a backend, and its simulated rows for each model.
func (m *Manifest) caseRows(c *Case) (out []planned, err error) {
	p, err := c.program()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := p.WriteText(&text); err != nil {
		return nil, err
	}
	row := Row{Collective: c.Collective, Algorithm: c.Algorithm, Ranks: c.Ranks}
	for _, n := range m.Elements {
		row.Bytes = n * m.ElementBytes
		if c.Backend != "" {
			r := row
			r.Key, r.Origin, r.Series, r.Backend = key(text.String(), c.Backend, c.Buffers, n, m.ElementBytes), Measured, c.Name+" on "+c.Backend, c.Backend
			out = append(out, planned{Row: r, of: c})
		}
		for _, name := range c.Models {
			machine, err := c.machine(m.Models[name])
			if err != nil {
				return nil, err
			}
			r := row
			r.Key = key(simulate.Version, text.String(), machine.Topology.Name, m.Models[name].Model, n, m.ElementBytes)
			r.Origin, r.Series, r.Topology, r.Model = Simulated, c.Name+" "+name, machine.Topology.Name, name
			out = append(out, planned{Row: r, program: p, machine: machine, count: n, of: c})
		}
	}
	return out, nil
}

// Rows returns the rows with their times, and how many of them are new. Each program is verified before it is
// simulated. If again is set, known rows are simulated again. If a case cannot be measured, Rows returns
// the rows of the others and an error that names the case. If a simulation fails, it returns no rows.
func (p *Plan) Rows(ctx context.Context, measurer Measurer, again bool) (rows []Row, made Made, err error) {
	verified := map[*schedule.Program]bool{}
	first, unmeasured := map[string]int{}, map[any][]int{} // rows to be measured: by key, and by case or overlap
	for i := range p.rows {
		r := &p.rows[i]
		row := r.Row
		have, taken := p.known[r.Key]
		switch {
		case r.Origin == External:
		case taken && !(again && r.Origin == Simulated):
			row.Picoseconds, row.Device = have.Picoseconds, have.Device
		case r.Origin == Measured:
			if _, ok := first[r.Key]; !ok {
				first[r.Key] = i
				unmeasured[r.of] = append(unmeasured[r.of], i)
			}
		default:
			if row.Picoseconds, err = r.simulate(ctx, p.ElementBytes, verified); err != nil {
				return nil, made, fmt.Errorf("%s: %w", r.Series, err)
			}
			made.Simulated++
		}
		if row.Picoseconds <= 0 && r.Origin != Measured {
			return nil, made, fmt.Errorf("%s at %d bytes: the model gives a time of %s ns: raise its constants", r.Series, r.Bytes, nanoseconds(row.Picoseconds))
		}
		rows = append(rows, row)
	}
	measure := func(of any, times func(sizes []int64) (Times, error)) {
		failed := p.measure(rows, unmeasured[of], times)
		switch {
		case failed == nil:
			made.Measured += len(unmeasured[of])
		case err == nil:
			err = failed
		default:
			err = fmt.Errorf("%w; %w", err, failed)
		}
	}
	for i := range p.Cases {
		c := &p.Cases[i]
		measure(c, func(sizes []int64) (Times, error) { return measurer.Case(ctx, c, sizes) })
	}
	for i := range p.Overlaps {
		o := &p.Overlaps[i]
		measure(o, func(sizes []int64) (Times, error) { return measurer.Overlap(ctx, o, sizes) })
	}
	for i := range rows {
		if from, ok := first[rows[i].Key]; ok { // equal cases are measured once
			rows[i].Picoseconds, rows[i].Device = rows[from].Picoseconds, rows[from].Device
		}
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Picoseconds == 0 })
	return rows, made, cmp.Or(err, ctx.Err())
}

// simulate returns the simulated time of a row, in picoseconds. It verifies each program once.
func (r *planned) simulate(ctx context.Context, elementBytes int64, verified map[*schedule.Program]bool) (int64, error) {
	if !verified[r.program] {
		if _, err := schedule.Correct(ctx, r.program); err != nil {
			return 0, err
		}
		verified[r.program] = true
	}
	result, err := simulate.Run(ctx, r.program, r.machine, r.count, elementBytes)
	if err != nil {
		return 0, err
	}
	return int64(result.Makespan), nil
}

// measure sets the times of the rows at the given indices, which belong to one case or overlap.
func (p *Plan) measure(rows []Row, at []int, times func(sizes []int64) (Times, error)) error {
	if len(at) == 0 {
		return nil
	}
	var sizes []int64
	for _, i := range at {
		sizes = append(sizes, rows[i].Bytes)
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	measured, err := times(sizes)
	if err != nil {
		return fmt.Errorf("%s: %w", rows[at[0]].Series, err)
	}
	for _, i := range at {
		k, _ := slices.BinarySearch(sizes, rows[i].Bytes)
		rows[i].Picoseconds, rows[i].Device = int64(measured.At[k][p.rows[i].contender]), measured.Device
	}
	return nil
}

// Unmeasured returns the sizes, in bytes, that are still to be measured, by case.
func (p *Plan) Unmeasured() map[*Case][]int64 {
	out, listed := map[*Case][]int64{}, map[string]bool{}
	for _, r := range p.rows {
		c, ok := r.of.(*Case)
		if _, have := p.known[r.Key]; ok && r.Origin == Measured && !have && !listed[r.Key] {
			listed[r.Key] = true
			out[c] = append(out[c], r.Bytes)
		}
	}
	return out
}

// Devices returns the names of the devices in rows, in ascending order.
func Devices(rows []Row) []string {
	found := map[string]bool{}
	for _, r := range rows {
		if r.Device != "" {
			found[r.Device] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Predicted returns the number of known measured rows of the cases that name a model.
func (p *Plan) Predicted(model string) (n int) {
	for _, r := range p.rows {
		c, ok := r.of.(*Case)
		if _, have := p.known[r.Key]; ok && have && r.Origin == Measured && slices.Contains(c.Models, model) {
			n++
		}
	}
	return n
}

// Missing returns the rows that have one of the origins and are not known, as "SERIES at N bytes".
func (p *Plan) Missing(origins ...string) (out []string) {
	for _, r := range p.rows {
		if _, ok := p.known[r.Key]; !ok && slices.Contains(origins, r.Origin) {
			out = append(out, fmt.Sprintf("%s at %d bytes", r.Series, r.Bytes))
		}
	}
	return out
}

// CheckKnown compares each known row with the planned row of the same key. It returns an error with the line of
// the first known row whose origin, size or case differs.
func (p *Plan) CheckKnown() error {
	var damaged firstLine
	for _, r := range p.rows {
		have, ok := p.known[r.Key]
		if !ok || r.Origin == External {
			continue
		}
		// Cases and models may have been renamed, and two algorithms can have equal programs.
		want := r.Row
		want.Series, want.Algorithm, want.Model, want.Picoseconds, want.Device, want.line = have.Series, have.Algorithm, have.Model, have.Picoseconds, have.Device, have.line
		if have != want {
			damaged.add(have.line, "%s: the row differs from %s at %d bytes (%s), which has the same key: remove the line", have.Series, r.Series, r.Bytes, r.Origin)
		}
	}
	return damaged.err
}

// CheckTimes compares the time of each known row with the time of the simulated row of the same key. It
// returns an error with the line of the first known row whose time differs.
func (p *Plan) CheckTimes(simulated []Row) error {
	var damaged firstLine
	for _, r := range simulated {
		if have, ok := p.known[r.Key]; ok && r.Origin == Simulated && have.Picoseconds != r.Picoseconds {
			damaged.add(have.line, "%s at %d bytes: the row has %s ns, but the simulator gives %s ns: remove the line",
				have.Series, have.Bytes, nanoseconds(have.Picoseconds), nanoseconds(r.Picoseconds))
		}
	}
	return damaged.err
}

// firstLine keeps the error with the lowest line of a file.
type firstLine struct {
	line int
	err  error
}

// add keeps an error unless one with a lower line is kept already.
func (f *firstLine) add(line int, format string, args ...any) {
	if f.err == nil || line < f.line {
		f.line, f.err = line, fmt.Errorf("line %d: %w", line, fmt.Errorf(format, args...))
	}
}

// check returns an error if no run can have written the row.
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

// Known parses the rows of an earlier run, and returns the measured and simulated rows by key. Errors name the
// line. Two rows with the same key are an error if they have the same series or different times.
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
		// Cases with equal programs share keys and times.
		if first, ok := known[r.Key]; ok && (first.Series == r.Series || first.Picoseconds != r.Picoseconds) {
			return nil, fmt.Errorf("line %d: %s at %d bytes: the row has the same key as line %d: remove one of the two lines", n, r.Series, r.Bytes, first.line)
		}
		known[r.Key] = r
	}
	return known, nil
}

// nanoseconds returns a time in nanoseconds with all its digits.
func nanoseconds(ps int64) string { return fmt.Sprintf("%d.%03d", ps/1000, ps%1000) }

// ndjson returns the rows as NDJSON.
func ndjson(rows []Row) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, r := range rows {
		_ = e.Encode(r) // writing to a buffer cannot fail
	}
	return b.Bytes()
}

// table returns the rows as CSV.
func table(rows []Row) []byte {
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
	return csvOf(lines)
}

func csvOf(lines [][]string) []byte {
	var b bytes.Buffer
	_ = csv.NewWriter(&b).WriteAll(lines) // writing to a buffer cannot fail
	return b.Bytes()
}
