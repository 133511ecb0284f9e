package schedule

import (
	"fmt"
	"slices"
	"strings"
)

// stuck reports why the remaining ops cannot start or end: unmatched sends and receives or, if there are
// none, a cycle of ops that wait for each other.
func (v *verifier) stuck() {
	unmatched, first := false, endOf{-1, -1}
	for r := range v.Ops {
		for _, i := range v.waiting(r) {
			if o := &v.Ops[r][i]; v.partner[r][i] < 0 {
				v.find(Unmatched, r, i, noSlot, "%s of rank %d, which has no %s left for it", direction(o), o.Peer, counterpart(o))
				unmatched = true
			} else if first.rank < 0 {
				first = endOf{r, i}
			}
		}
	}
	if unmatched || len(v.report.Findings) > 0 {
		return
	}
	// Every waiting op waits for another waiting op, so the walk ends in a cycle.
	seen := map[endOf]int{}
	var words []string
	at := first
	for {
		if begin, ok := seen[at]; ok {
			v.find(Deadlock, at.rank, at.op, noSlot, "a cycle: %s %s", v.op(at), strings.Join(words[begin:], ", which "))
			return
		}
		seen[at] = len(words)
		next, why := v.waitsFor(at)
		words = append(words, fmt.Sprintf("%s %s", why, v.op(next)))
		at = next
	}
}

// op describes an op in findings.
func (v *verifier) op(at endOf) string {
	return fmt.Sprintf("op %d (%s) of rank %d", at.op, v.Ops[at.rank][at.op].Kind, at.rank)
}

// waitsFor returns an op that must start or end before the op at can end, and why, as in "op at WHY op
// next". It requires that no op can proceed, and that every message has both ends.
func (v *verifier) waitsFor(at endOf) (next endOf, why string) {
	r, o := at.rank, &v.Ops[at.rank][at.op]
	s := &v.streams[r][o.Stream]
	if s.open > 0 && v.waitsForPeer(r, at.op) {
		if v.Eager(o) && o.sends() {
			return endOf{int(o.Peer), int(v.turn[r][at.op])}, "waits for room in a buffer after"
		}
		return endOf{int(o.Peer), int(v.partner[r][at.op])}, "waits for"
	}
	node, held := s.ops[s.next:][:s.open], v.waitsForPeer
	if s.open == 0 {
		node, held = s.ops[s.next:][:v.node(r, s)], func(r, i int) bool { return v.waitsForOp(r, i) >= 0 }
	}
	why = "comes after"
	if slices.Contains(node, int32(at.op)) {
		if s.open == 0 && held(r, at.op) {
			return endOf{r, v.waitsForOp(r, at.op)}, "depends on"
		}
		why = "starts and ends with"
	}
	return endOf{r, int(node[slices.IndexFunc(node, func(i int32) bool { return held(r, int(i)) })])}, why
}

// direction says what an op with a peer waits for.
func direction(o *Op) string {
	if o.Kind == Wait {
		return "waits for a signal"
	}
	if o.sends() {
		return "waits for a receive"
	}
	return "waits for a send"
}

// counterpart returns the kind of op that meets o.
func counterpart(o *Op) string {
	switch o.Kind {
	case Signal:
		return "wait"
	case Wait:
		return "signal"
	case Send:
		return "receive"
	default:
		return "send"
	}
}
