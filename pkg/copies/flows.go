package copies

import "fmt"

// Side is a side of a copy: memory of the device of a rank, or of its host.
type Side struct {
	Rank int
	Host bool
}

// Flow is a copy that a rank makes over and over.
type Flow struct {
	Acts     int // the rank that copies
	Src, Dst Side
	// Times is the number of copies for each timed one: 1 for a flow that is timed, and Disturbance for one that must
	// outlast those.
	Times int
}

// String describes the flow, such as the copy by rank 1 from rank 0 to rank 1.
func (l Flow) String() string {
	at := func(s Side) string {
		if s.Host {
			return fmt.Sprintf("the host of rank %d", s.Rank)
		}
		return fmt.Sprintf("rank %d", s.Rank)
	}
	return fmt.Sprintf("the copy by rank %d from %s to %s", l.Acts, at(l.Src), at(l.Dst))
}

// Disturbance is the number of copies of a flow that is not timed for each timed one. nvbandwidth uses the same factor.
const Disturbance = 2

// Turn identifies the flows that run at the same time. A test has one or, if it measures several devices or pairs, one
// for each of them.
type Turn struct {
	One  int // the device that a test of one device, or of all, measures; of a test of two devices the one that copies
	Peer int // the other device of a test of two
}

// MaxWorld is the maximum number of devices of a case.
const MaxWorld = 128

// Turns returns the turns of a block on a world of up to MaxWorld ranks, in the order of rows: for pairs from the rank whose data move
// to the rank that they reach.
func (b *Block) Turns(world int) (turns []Turn) {
	t := TestOf(b.Test)
	switch {
	case world > MaxWorld:
		return nil
	case t.Ranks == 2 && !b.Each:
		return []Turn{{One: 1}}
	case t.Ranks == 1 && !b.Each:
		return []Turn{{}}
	case t.Ranks != 2:
		for one := range world {
			turns = append(turns, Turn{One: one})
		}
		return turns
	}
	for src := range world {
		for dst := range world {
			switch {
			case src == dst:
			case t.Out:
				turns = append(turns, Turn{src, dst})
			default:
				turns = append(turns, Turn{dst, src})
			}
		}
	}
	return turns
}

// Flows returns the flows of a turn on a world of ranks. The first one is timed; the second one of a test of two devices in
// both directions is the opposite direction.
func (t Test) Flows(world int, turn Turn) (flows []Flow) {
	device := func(rank int) Side { return Side{Rank: rank} }
	between := func(acts, other, times int) {
		flow := Flow{acts, device(other), device(acts), times}
		if t.Out {
			flow.Src, flow.Dst = flow.Dst, flow.Src
		}
		flows = append(flows, flow)
	}
	own := func(rank, times, opposite int) {
		in := Flow{rank, Side{rank, t.Memory}, device(rank), times}
		out := Flow{rank, device(rank), Side{rank, t.Memory}, times}
		if t.Out {
			in, out = out, in
		}
		if flows = append(flows, in); t.Both {
			out.Times = opposite
			flows = append(flows, out)
		}
	}
	switch {
	case t.Ranks == 2:
		if between(turn.One, turn.Peer, 1); t.Both {
			between(turn.Peer, turn.One, 1)
		}
		return flows
	case t.Ranks == 1 || t.Memory:
		own(turn.One, 1, Disturbance)
	}
	if t.Ranks != All {
		return flows
	}
	for rank := range world {
		switch {
		case rank == turn.One:
		case t.Memory:
			own(rank, Disturbance, Disturbance)
		case t.Single:
			between(turn.One, rank, 1)
		default:
			between(rank, turn.One, 1)
		}
	}
	return flows
}

// Copies returns the number of copies that a turn times as one: 1, or one for each other device if the test measures what
// all of them move together.
func (t Test) Copies(world int) int {
	if t.Ranks == All && !t.Memory {
		return world - 1
	}
	return 1
}

// Disturbed reports whether other ranks copy beside the timed one, and are not timed.
func (t Test) Disturbed() bool { return t.Ranks == All && t.Memory }

// ChaseBytes is the distance of the words that a chase reads, and ChaseMax the maximum bytes of a chase: nvbandwidth's.
const (
	ChaseBytes = 128
	ChaseMax   = 2 << 20
)

// Runs reports whether the test, for each device or pair if each is set, has turns on a world of ranks.
func (t Test) Runs(world int, each bool) bool {
	if t.Ranks == All || each {
		return world >= 2 && world <= MaxWorld
	}
	return world == t.Ranks
}
