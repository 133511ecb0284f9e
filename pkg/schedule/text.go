package schedule

import (
	"fmt"
	"io"
	"strings"
)

// WriteText writes the ops of every rank, a node a line: its stream where the rank has
// several, its ops, and what it waits for.
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
			to := from + 1
			for to < len(ops) && ops[from].Group != 0 && ops[to].Group == ops[from].Group {
				to++
			}
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

// String says what the op does.
func (o *Op) String() string {
	span := func(s Slot) string {
		if o.Count == 1 {
			return s.String()
		}
		if j, ok := s.scratch(); ok {
			return fmt.Sprintf("scratch %d to %d", j, j+int(o.Count)-1)
		}
		return fmt.Sprintf("chunks %d to %d", int(s), int(s)+int(o.Count)-1)
	}
	switch o.Kind {
	case Send:
		return fmt.Sprintf("send %s to rank %d", span(o.Src), o.Peer)
	case Recv:
		return fmt.Sprintf("receive %s from rank %d", span(o.Dst), o.Peer)
	case RecvReduce:
		return fmt.Sprintf("receive from rank %d and add to %s", o.Peer, span(o.Dst))
	case Copy:
		return fmt.Sprintf("copy %s to %s", span(o.Src), span(o.Dst))
	case Put:
		if o.Async {
			return fmt.Sprintf("begin to put %s into %s of rank %d", span(o.Src), span(o.Dst), o.Peer)
		}
		return fmt.Sprintf("put %s into %s of rank %d", span(o.Src), span(o.Dst), o.Peer)
	case Get:
		return fmt.Sprintf("get %s of rank %d into %s", span(o.Src), o.Peer, span(o.Dst))
	case GetReduce:
		return fmt.Sprintf("add %s of rank %d to %s", span(o.Src), o.Peer, span(o.Dst))
	case Flush:
		return fmt.Sprintf("wait until puts to rank %d have ended", o.Peer)
	case Signal:
		return fmt.Sprintf("signal rank %d", o.Peer)
	case Wait:
		return fmt.Sprintf("wait for a signal of rank %d", o.Peer)
	default:
		return fmt.Sprintf("add %s to %s", span(o.Src), span(o.Dst))
	}
}
