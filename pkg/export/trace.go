package export

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/safefile"
)

// traceForm writes the trace of one case as Trace Event JSON, which Perfetto reads: a process
// for each rank and a thread for each track.
type traceForm struct {
	w       io.Writer
	program string
	trace   *trace
	caseID  string
}

func newTrace(w io.Writer, program string) (Form, error) {
	return &traceForm{w: w, program: program}, nil
}

// trace is the JSON object format of trace events.
type trace struct {
	Events []event        `json:"traceEvents"`
	Unit   string         `json:"displayTimeUnit"`
	Other  map[string]any `json:"otherData"`
}

// event is a trace event. Times are microseconds.
type event struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Rank  int            `json:"pid"`
	Track int            `json:"tid"`
	At    float64        `json:"ts"`
	Dur   *float64       `json:"dur,omitempty"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// Add implements Form.
func (f *traceForm) Add(c Case) error {
	h := c.Document.Head()
	if f.trace != nil {
		return fmt.Errorf("%w: a trace is of one case, and these documents are of %s and %s; name one with --in FILE.json", ErrInput, f.caseID, h.Identity.CaseID)
	}
	f.caseID = h.Identity.CaseID
	spans := spansOf(h.Identity.Case.Family)
	if spans == nil {
		return fmt.Errorf("%w: %s: family %s has no traces", ErrInput, c.Source, h.Identity.Case.Family)
	}
	ranks, err := readSpans(c, spans)
	if err != nil {
		return err
	}
	f.trace = &trace{Unit: "ns", Other: map[string]any{
		"case_id": f.caseID, "outcome": h.Outcome.Status, "generated_at": h.GeneratedAt, "generator": f.program,
	}}
	f.trace.lay(ranks)
	f.trace.counters(h.Devices)
	return nil
}

// Close implements Form.
func (f *traceForm) Close() error {
	if f.trace == nil {
		return errors.New("no document to make a trace of")
	}
	text, err := result.Encode(f.trace)
	if err == nil {
		_, err = f.w.Write(text)
	}
	return err
}

// maxRecord is the largest record that is read, in bytes.
const maxRecord = 64 << 20

// readSpans reads the raw samples beside a document: the spans of each rank.
func readSpans(c Case, of func(d result.Document, kind string, data json.RawMessage) ([]figure.Span, error)) ([][]figure.Span, error) {
	path := result.SamplesFile(c.Source)
	file, err := safefile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %s has no raw samples beside it: %w; name a document in its results directory with --in FILE.json", ErrInput, c.Source, err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	ranks := make([][]figure.Span, c.Document.Head().Topology.WorldSize)
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, maxRecord)
	for n := 1; lines.Scan(); n++ {
		var record struct {
			Rank int             `json:"rank"`
			Kind string          `json:"kind"`
			Data json.RawMessage `json:"data"`
		}
		err := json.Unmarshal(lines.Bytes(), &record)
		if err == nil && (record.Rank < 0 || record.Rank >= len(ranks)) {
			err = fmt.Errorf("rank %d of %d", record.Rank, len(ranks))
		}
		var spans []figure.Span
		if err == nil {
			spans, err = of(c.Document, record.Kind, record.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		ranks[record.Rank] = append(ranks[record.Rank], spans...)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ranks, nil
}

// lay adds the spans of each rank.
func (t *trace) lay(ranks [][]figure.Span) {
	var first time.Time
	tracks := []string{} // by number, the same in every rank
	longest := 0
	for _, spans := range ranks {
		longest = max(longest, len(spans))
		for _, s := range spans {
			if !slices.Contains(tracks, s.Track) {
				tracks = append(tracks, s.Track)
			}
			if !s.Began.IsZero() && (first.IsZero() || s.Began.Before(first)) {
				first = s.Began
			}
		}
	}
	t.Other["times"] = "reconstructed from durations, in the order of the measurement"
	if !first.IsZero() {
		t.Other["times"] = "windows: recorded; within a window: reconstructed from durations"
		t.Other["began"] = first.UTC().Format(time.RFC3339Nano)
	}
	for rank := range ranks {
		t.Events = append(t.Events, event{Name: "process_name", Phase: "M", Rank: rank, Args: map[string]any{"name": fmt.Sprint("rank ", rank)}})
		for i, track := range tracks {
			t.Events = append(t.Events, event{Name: "thread_name", Phase: "M", Rank: rank, Track: i, Args: map[string]any{"name": track}})
		}
	}
	now := 0.0
	for i := range longest {
		end := now
		starts := together(ranks, i, now)
		for rank, spans := range ranks {
			if i >= len(spans) {
				continue
			}
			s := spans[i]
			e := event{Name: s.Name, Phase: "X", Rank: rank, Track: slices.Index(tracks, s.Track), Args: s.Args}
			at := now
			if !s.Began.IsZero() {
				at = float64(s.Began.Sub(first).Nanoseconds()) / 1e3
			}
			began := at
			if len(s.Us) == 0 {
				e.Phase, e.Scope, e.At = "i", "t", at
				t.Events = append(t.Events, e)
			}
			for j, us := range s.Us {
				e.At, e.Dur = at, &us
				if s.Names != nil {
					e.Name = s.Names[j]
				}
				switch {
				case s.Offsets != nil:
					e.At = began + s.Offsets[j]
				case s.Began.IsZero():
					e.At = starts[j]
				}
				t.Events = append(t.Events, e)
				at = max(at, e.At+us)
			}
			end = max(end, at)
		}
		now = end
	}
}

// together returns when each iteration of the i-th spans begins: on all ranks at once, after the previous one
// has ended on all.
func together(ranks [][]figure.Span, i int, now float64) (starts []float64) {
	for j := 0; ; j++ {
		longest, found := 0.0, false
		for _, spans := range ranks {
			if i < len(spans) && j < len(spans[i].Us) {
				longest, found = max(longest, spans[i].Us[j]), true
			}
		}
		if !found {
			return starts
		}
		starts = append(starts, now)
		now += longest
	}
}

// counters adds the state of the devices before the first and after the last window.
func (t *trace) counters(devices *result.Devices) {
	if devices == nil {
		return
	}
	last := 0.0
	for _, e := range t.Events {
		if e.Dur != nil {
			last = max(last, e.At+*e.Dur)
		}
	}
	for _, r := range devices.Ranks {
		for _, s := range []struct {
			at    float64
			state *result.DeviceState
		}{{0, r.Before}, {last, r.After}} {
			if s.state == nil {
				continue
			}
			for _, c := range []struct {
				name  string
				value int
			}{{"SM clock MHz", s.state.SMMHz}, {"memory clock MHz", s.state.MemMHz}, {"power W", s.state.PowerW}, {"temperature C", s.state.TemperatureC}} {
				if c.value != 0 {
					t.Events = append(t.Events, event{Name: c.name, Phase: "C", Rank: r.Rank, At: s.at, Args: map[string]any{"value": c.value}})
				}
			}
		}
	}
}
