package schedule

import (
	"fmt"
	"io"
	"strings"
)

// WriteText writes the ops of every rank as text. Ops that start and end together share a line. The line
// begins with the index of its first op, then the stream if the rank has several, and ends with the ops that
// it waits for.
func (p *Program) WriteText(w io.Writer) error {
	for r, ops := range p.Ops {
		streams := false
		for i := range ops {
			streams = streams || ops[i].Stream > 0
		}
		if _, err := fmt.Fprintf(w, "rank %d\n", r); err != nil {
			return err
		}
		for from := 0; from < len(ops); {
			to := NodeEnd(ops, from)
			var words, after []string
			for i := from; i < to; i++ {
				words = append(words, ops[i].String())
				for _, d := range p.Deps(&ops[i]) {
					if a := fmt.Sprintf("op %d", d); len(after) == 0 || after[len(after)-1] != a {
						after = append(after, a)
					}
				}
			}
			line := fmt.Sprintf("%6d  ", from)
			if streams {
				line += fmt.Sprintf("stream %d: ", ops[from].Stream)
			}
			line += strings.Join(words, ", ")
			if after != nil {
				line += " (after " + strings.Join(after, ", ") + ")"
			}
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
			from = to
		}
	}
	return nil
}

// opTexts are the formats of ops by kind. The arguments are source, destination and peer.
var opTexts = [...]string{
	Reduce:     "add %[1]s to %[2]s",
	Send:       "send %[1]s to rank %[3]d",
	Recv:       "receive %[2]s from rank %[3]d",
	RecvReduce: "receive from rank %[3]d and add to %[2]s",
	Copy:       "copy %[1]s to %[2]s",
	Put:        "put %[1]s into %[2]s of rank %[3]d",
	Signal:     "signal rank %[3]d",
	Wait:       "wait for a signal of rank %[3]d",
	Get:        "get %[1]s of rank %[3]d into %[2]s",
	GetReduce:  "add %[1]s of rank %[3]d to %[2]s",
	Flush:      "wait until puts to rank %[3]d have ended",
}

// String describes the op, for example "send chunk 3 to rank 1".
func (o *Op) String() string {
	text := fmt.Sprintf(opTexts[o.Kind], o.span(o.Src), o.span(o.Dst), o.Peer)
	if o.Async {
		return "begin to " + text
	}
	return text
}

// span returns the text of the op's slots from s on.
func (o *Op) span(s Slot) string {
	if o.Count == 1 {
		return s.String()
	}
	if j, ok := s.InScratch(); ok {
		return fmt.Sprintf("scratch %d to %d", j, j+int(o.Count)-1)
	}
	return fmt.Sprintf("chunks %d to %d", int(s), int(s)+int(o.Count)-1)
}
