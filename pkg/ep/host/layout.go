package host

import (
	"github.com/collectivex/collectivex/pkg/ep/runner"
)

// pull identifies one row that comes back for a token: row number row of those sent to rank, for the
// token's top-k slot.
type pull struct{ rank, row, slot int }

// layout records which tokens go where, and where their rows come back from.
type layout struct {
	shape
	sends  [][]int32 // by destination: the token of each row
	counts []int32   // rows for each global expert
	pulls  []pull    // token by token
	first  []int     // index in pulls of each token's first pull, then len(pulls)
	next   []int     // scratch: next row of each expert
}

func newLayout(s shape) layout {
	l := layout{
		shape: s, sends: make([][]int32, s.world), counts: make([]int32, s.experts),
		pulls: make([]pull, 0, s.tokens*s.topk), first: make([]int, 0, s.tokens+1), next: make([]int, s.experts),
	}
	for d := range l.sends {
		l.sends[d] = make([]int32, 0, s.rows)
	}
	return l
}

// reset empties the layout and counts the rows of each expert, ignoring −1.
func (l *layout) reset(experts []int64) {
	clear(l.counts)
	for _, e := range experts {
		if e >= 0 {
			l.counts[e]++
		}
	}
	l.pulls, l.first = l.pulls[:0], append(l.first[:0], 0)
}

// byRank computes a token-rank layout: each token once for each rank that hosts one of its
// experts. Its pulls are in rank order, each with the first slot whose expert is on the rank.
func (l *layout) byRank(experts []int64) {
	l.reset(experts)
	for d := range l.sends {
		l.sends[d] = l.sends[d][:0]
	}
	for token := range len(experts) / l.topk {
		begin := len(l.pulls)
		for slot, e := range experts[token*l.topk : (token+1)*l.topk] {
			if e < 0 {
				continue
			}
			rank := int(e) / l.perRank
			at := begin
			for at < len(l.pulls) && l.pulls[at].rank < rank {
				at++
			}
			if at < len(l.pulls) && l.pulls[at].rank == rank {
				continue
			}
			l.pulls = append(l.pulls, pull{})
			copy(l.pulls[at+1:], l.pulls[at:])
			l.pulls[at] = pull{rank, len(l.sends[rank]), slot}
			l.sends[rank] = append(l.sends[rank], int32(token))
		}
		l.first = append(l.first, len(l.pulls))
	}
}

// byExpert computes a token-expert layout: each token once for each of its experts, the rows for
// a rank grouped by expert. Its pulls are in slot order.
func (l *layout) byExpert(experts []int64) {
	l.reset(experts)
	for d := range l.sends {
		rows := 0
		for e := d * l.perRank; e < (d+1)*l.perRank; e++ {
			l.next[e] = rows
			rows += int(l.counts[e])
		}
		l.sends[d] = l.sends[d][:rows]
	}
	for token := range len(experts) / l.topk {
		for slot, e := range experts[token*l.topk : (token+1)*l.topk] {
			if e < 0 {
				continue
			}
			rank, row := int(e)/l.perRank, l.next[e]
			l.next[e]++
			l.sends[rank][row] = int32(token)
			l.pulls = append(l.pulls, pull{rank, row, slot})
		}
		l.first = append(l.first, len(l.pulls))
	}
}

// layOut computes the layout of the bound problem.
func (a *adapter) layOut() {
	experts := deviceSlice[int64](a.p.Expert, a.p.Tokens*a.p.TopK)
	if a.d.Receive == runner.TokenRank {
		a.layout.byRank(experts)
	} else {
		a.layout.byExpert(experts)
	}
}
