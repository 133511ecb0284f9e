package page

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/fit"
	"github.com/collectivex/collectivex/pkg/table"
)

// Fit is a segment of α + n/B of a series, whose figures the sizes identify.
type Fit struct {
	First, Last     float64 // bytes
	FirstUs, LastUs float64
	Text            string
}

// MarshalJSON writes a fit as a list.
func (f Fit) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{f.First, f.Last, f.FirstUs, f.LastUs, f.Text})
}

// fitted returns the fits of the rungs of s that count.
func fitted(s *Series) []Fit {
	var points []fit.Point
	for _, p := range s.Points {
		if p.Reason == "" {
			points = append(points, fit.Point{Bytes: float64(p.X), Us: p.Time.P50})
		}
	}
	var out []Fit
	segments := fit.Fit(points).Segments
	for i, g := range segments {
		if g.Latency == nil && g.Bandwidth == nil {
			continue
		}
		var text []string
		if a := g.Latency; a != nil {
			text = append(text, fmt.Sprintf("α %s ± %s µs", significant(a.Value), significant(a.SE)))
		}
		if b := g.Bandwidth; b != nil {
			text = append(text, fmt.Sprintf("B %s ± %s GB/s", significant(b.Value), significant(b.SE)))
		}
		if n := g.HalfBytes; n != nil {
			text = append(text, "n½ "+table.Size(int64(*n)))
		}
		if g.Why != "" {
			text = append(text, g.Why)
		}
		if i > 0 {
			text = append(text, "after a break at "+table.Size(int64(g.FirstBytes)))
		}
		out = append(out, Fit{g.FirstBytes, g.LastBytes, g.Us(g.FirstBytes), g.Us(g.LastBytes), strings.Join(text, ", ")})
	}
	return out
}
