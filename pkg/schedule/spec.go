package schedule

import "github.com/collectivex/collectivex/pkg/vocab"

// Spec names a schedule, with the parameters of its program other than the number of ranks.
type Spec struct {
	Op, Algorithm string
	// Width and Segments are as ShapeOf returns them: 0 if the program does not depend on them.
	Width, Segments int
}

// Label returns the name of the schedule with its width and segments, as the function Label does.
func (s *Spec) Label() string {
	return Label(s.Algorithm, Shape{Width: s.Width, Segments: s.Segments})
}

// RedOp returns the reduction of a collective's programs, or "" if the collective adds nothing.
func RedOp(op string) string {
	if vocab.Op(op).Reduces {
		return "sum"
	}
	return ""
}
