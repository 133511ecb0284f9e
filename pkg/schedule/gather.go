package schedule

// A gather works on a team of ranks, or on ranks 0 to n−1. Member i of the team owns chunk i of the writer.
// 'cxrun schedule list' prints the rule of each gather.

// ringGather passes chunks to the next member in a direction, 1 or −1. In step t, member i sends chunk
// i − direction·t.
func ringGather(w *writer, team []int, direction int) {
	n := len(team)
	for t := range n - 1 {
		for i, r := range team {
			next, previous := team[mod(i+direction, n)], team[mod(i-direction, n)]
			w.exchange(r, next, w.vector(mod(i-direction*t, n)), previous, w.vector(mod(i-direction*(t+1), n)), w.unit)
		}
	}
}

// ringScatter passes sums to the next member in a direction. Member i ends with the sum of chunk i.
func ringScatter(w *writer, team []int, direction int) {
	w.scatterReduce(func(w *writer) { ringGather(w, team, -direction) })
}

// bidirectionalGather passes chunks in both directions of a ring. If n is even, the last step goes one way.
func bidirectionalGather(w *writer, n int) {
	for t := range n / 2 {
		both := t < (n-1)/2
		for r := range n {
			w.group(r, func() {
				w.send(r, mod(r+1, n), w.vector(mod(r-t, n)), 1)
				w.recv(r, mod(r-1, n), w.vector(mod(r-1-t, n)), 1)
				if both {
					w.send(r, mod(r-1, n), w.vector(mod(r+t, n)), 1)
					w.recv(r, mod(r+1, n), w.vector(mod(r+1+t, n)), 1)
				}
			})
		}
	}
}

// lineGather passes chunks in both directions of a line, which has no link between its last rank and
// its first.
func lineGather(w *writer, n int) {
	for t := range n - 1 {
		for r := range n {
			w.group(r, func() {
				if r < n-1 && r-t >= 0 {
					w.send(r, r+1, w.vector(r-t), 1)
				}
				if r-1-t >= 0 {
					w.recv(r, r-1, w.vector(r-1-t), 1)
				}
				if r > 0 && r+t < n {
					w.send(r, r-1, w.vector(r+t), 1)
				}
				if r+1+t < n {
					w.recv(r, r+1, w.vector(r+1+t), 1)
				}
			})
		}
	}
}

// doublingGather exchanges blocks of 1, 2, 4, … chunks. The size of the team must be a power of two.
func doublingGather(w *writer, team []int) {
	for d := 1; d < len(team); d *= 2 {
		for i, r := range team {
			w.exchange(r, team[i^d], w.vector(i/d*d), team[i^d], w.vector((i^d)/d*d), d*w.unit)
		}
	}
}

// bruckGather sends, in step t, the 2^t chunks gathered so far to rank r−2^t; in the last step, only the chunks still missing there.
func bruckGather(w *writer, n int) {
	for d := 1; d < n; d *= 2 {
		count := min(d, n-d)
		for r := range n {
			w.exchangeParts(r, mod(r-d, n), wrapped(r, count, n), mod(r+d, n), wrapped(r+d, count, n))
		}
	}
}

// directGather sends every rank's own chunk to all other ranks in one step.
func directGather(w *writer, n int) {
	for r := range n {
		w.group(r, func() {
			for i := 1; i < n; i++ {
				w.send(r, mod(r+i, n), w.vector(r), 1)
				w.recv(r, mod(r-i, n), w.vector(mod(r-i, n)), 1)
			}
		})
	}
}

// directScatter sends every chunk to its rank, which adds what it received from ranks r−1, r−2, … in this
// order.
func directScatter(w *writer, n int) {
	for r := range n {
		w.group(r, func() {
			for i := 1; i < n; i++ {
				w.send(r, mod(r+i, n), w.vector(mod(r+i, n)), 1)
				w.recv(r, mod(r-i, n), Scratch(i-1), 1)
			}
		})
		w.sum(r, n-1, w.vector(r))
	}
}

// rotationGather is the all_gather by collective permutes: step i moves every rank's own chunk over
// distance i, independently of the earlier steps.
func rotationGather(w *writer, n int) {
	for i := 1; i < n; i++ {
		for r := range n {
			w.exchange(r, mod(r-i, n), w.vector(r), mod(r+i, n), w.vector(mod(r+i, n)), 1)
		}
	}
}

// broadcastGather broadcasts chunk i from rank i on stream i.
func broadcastGather(w *writer, n int) {
	for root := range n {
		s := w.on(root, 0, 1)
		for r := range n {
			if r != root {
				s.recv(r, root, s.vector(root), 1)
			}
		}
		s.group(root, func() {
			for i := 1; i < n; i++ {
				s.send(root, mod(root+i, n), s.vector(root), 1)
			}
		})
	}
}

// patGather counts step d down to 0. In it, rank r sends to r+2^d each chunk r−s for which 2^(d+1) divides s.
func patGather(w *writer, n int) {
	for d := log2(2*n-1) - 1; d >= 0; d-- {
		step := 1 << d
		for r := range n {
			w.group(r, func() {
				for s := 0; s+step < n; s += 2 * step {
					w.send(r, mod(r+step, n), w.vector(mod(r-s, n)), 1)
				}
				for s := 0; s+step < n; s += 2 * step {
					w.recv(r, mod(r-step, n), w.vector(mod(r-step-s, n)), 1)
				}
			})
		}
	}
}

// slicedGather first sends the slice of each rank round the ranks with the same index in their nodes. Then
// each rank sends all slices that it holds to the other ranks of its node.
func slicedGather(w *writer, s Shape) {
	nodes, mates := s.height(), s.Width
	for t := range nodes - 1 {
		for r := range s.Ranks {
			ringStep(w, r, s, r-t*mates)
		}
	}
	for m := range nodes {
		for r := range s.Ranks {
			pushStep(w, r, s, m)
		}
	}
}

// ringStep makes rank r send the slice of owner to the next node, and receive a slice from the node before.
// It returns the index of the receive.
func ringStep(w *writer, r int, s Shape, owner int) (received int) {
	w.group(r, func() {
		w.send(r, mod(r+s.Width, s.Ranks), w.vector(mod(owner, s.Ranks)), 1)
		received = w.recv(r, mod(r-s.Width, s.Ranks), w.vector(mod(owner-s.Width, s.Ranks)), 1)
	})
	return received
}

// pushStep makes rank r send the slice that it holds from node m to the other ranks of its node, and receive
// their slices from node m. The sends wait for the ops after.
func pushStep(w *writer, r int, s Shape, m int, after ...int) {
	node, index := r/s.Width*s.Width, r%s.Width
	w.group(r, func() {
		for i := 1; i < s.Width; i++ {
			to, from := (index+i)%s.Width, mod(index-i, s.Width)
			w.add(r, Op{Kind: Send, Peer: int32(node + to), Src: w.vector(m*s.Width + index), Count: 1}, after...)
			w.recv(r, node+from, w.vector(m*s.Width+from), 1)
		}
	})
}

// stagedGather gathers the block of each node in every rank of the node. Then it sends blocks round the
// ranks with the same index in their nodes.
func stagedGather(w *writer, s Shape) {
	for r := range s.Ranks {
		pushStep(w, r, s, r/s.Width)
	}
	ofNodes := w.on(0, 0, s.Width)
	eachColumn(s, func(column []int) { ringGather(ofNodes, column, 1) })
}

// bandedGather does the work of slicedGather on two halves of every slice. Stream 0 sends slices round the
// nodes while stream 1 sends the slices that have arrived to the ranks of the node.
func bandedGather(w *writer, s Shape) {
	nodes := s.height()
	for band := range 2 {
		ring, push := w.on(0, band, 2), w.on(1, band, 2)
		for r := range s.Ranks {
			pushStep(push, r, s, r/s.Width)
		}
		for t := range nodes - 1 {
			for r := range s.Ranks {
				received := ringStep(ring, r, s, r-t*s.Width)
				pushStep(push, r, s, mod(r/s.Width-t-1, nodes), received)
			}
		}
	}
}
