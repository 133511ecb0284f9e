package schedule

import "github.com/collectivex/collectivex/pkg/vocab"

// Spec names the schedule of a collective, and what its program depends on beside the ranks.
type Spec struct {
	Op, Algorithm string
	// Width and Segments as in ShapeOf; 0 if the program does not depend on them.
	Width, Segments int
}

// Label names the schedule with what its program depends on; see Label.
func (s *Spec) Label() string {
	return Label(s.Algorithm, Shape{Width: s.Width, Segments: s.Segments})
}

// RedOp is the reduction of the programs of a collective; empty if it has none.
func RedOp(op string) string {
	if vocab.Op(op).Reduces {
		return "sum"
	}
	return ""
}
