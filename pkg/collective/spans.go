package collective

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

func spans(doc result.Document, kind string, data json.RawMessage) ([]figure.Span, error) {
	return Spans(doc.(*Document), kind, data)
}

// Spans returns the windows of a record of raw samples, each with its check.
func Spans(d *Document, kind string, data json.RawMessage) ([]figure.Span, error) {
	if kind != KindSample {
		return nil, nil
	}
	var r struct {
		Sample
		Began time.Time `json:"began"`
		Check struct {
			Checked int64 `json:"checked"`
			Wrong   int64 `json:"wrong"`
		} `json:"check"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d bytes, %s", r.Requested, r.Placement)
	if r.Pair != (Pair{}) {
		what += fmt.Sprintf(", rank %d to %d", r.Pair.Src, r.Pair.Dst)
	}
	m := Of(&d.Identity.Case).Measure
	s := figure.Span{
		Track: r.Mode, Name: what, Began: r.Began, Us: r.US,
		Args: map[string]any{"trial": r.Trial, "repeat": r.Repeat, "checked_elements": r.Check.Checked, "wrong_elements": r.Check.Wrong},
	}
	operations := m.Iterations * cmp.Or(m.Aggregate, 1)
	switch {
	case len(r.US) == 0: // an untimed window
		s.Track, s.Name = figure.Checks, figure.Verdict(r.Check.Wrong == 0)+": "+what
		return []figure.Span{s}, nil
	case len(r.US) != 1 || r.Mode == vocab.PerIteration || r.Mode == vocab.Blocking:
		return []figure.Span{s}, nil
	case r.Mode == vocab.Graph:
		operations *= cmp.Or(m.Launches, 1)
	}
	// One figure for a window of back-to-back operations: the window is the span.
	s.Args["us_per_operation"], s.Args["operations"] = r.US[0], operations
	s.Us = []float64{r.US[0] * float64(operations)}
	return []figure.Span{s}, nil
}

// KindSample is the kind of records of windows; each contains a Sample.
const KindSample = "collective-sample"

// Pair is two ranks; the zero value means no pair.
type Pair struct {
	Src int `json:"src"`
	Dst int `json:"dst"`
}

// Window identifies one window; all ranks have the same ones in the same order. The untimed one follows
// the last trial and has the number of trials as its Trial.
type Window struct {
	Requested int64  `json:"requested"`
	Placement string `json:"placement"`
	Pair      Pair   `json:"pair,omitzero"`
	Mode      string `json:"mode"`
	Trial     int    `json:"trial"`
	Repeat    int    `json:"repeat,omitempty"` // of the trial; see rank.Session.Trials
}

// Sample is what one rank measured in one window.
type Sample struct {
	Window
	// US is microseconds per operation: one for every iteration (blocking, per_iteration), else one for
	// the window; empty for an idle rank.
	US []float64 `json:"us"`
	// Enqueue is the microseconds until the window's last operation was enqueued, divided by its
	// operations; 0 if the window waits in between.
	Enqueue float64 `json:"enqueue_us,omitempty"`
}
