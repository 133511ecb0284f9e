package schedule

import "slices"

// ringReduce is a ring reduce_scatter followed by a ring all_gather.
func ringReduce(w *writer, team []int) {
	ringScatter(w, team, 1)
	ringGather(w, team, 1)
}

// bidirectionalReduce reduces one half of the vector round the ring in each direction.
func bidirectionalReduce(w *writer, s Shape) {
	for half, direction := range []int{1, -1} {
		h := w.on(half, half*s.Ranks, 1)
		ringScatter(h, everyRank(s.Ranks), direction)
		ringGather(h, everyRank(s.Ranks), direction)
	}
}

// ringFullReduce passes whole vectors round the ring. Each member first sends its own vector and then, in
// each step, the vector received last. It adds every vector that it receives. The order of additions
// differs from rank to rank.
func ringFullReduce(w *writer, team []int) {
	n := len(team)
	for t := range n - 1 {
		for i, r := range team {
			from := w.vector(0)
			if t > 0 {
				from = Scratch((t - 1) % 2)
			}
			w.exchange(r, team[mod(i+1, n)], from, team[mod(i-1, n)], Scratch(t%2), 1)
			w.add(r, Op{Kind: Reduce, Src: Scratch(t % 2), Dst: w.vector(0), Count: 1})
		}
	}
}

// onePhaseReduce sends every vector to all ranks. Rank r adds the vectors of ranks r−1, r−2, … to its
// own, in this order.
func onePhaseReduce(w *writer, n int) {
	for r := range n {
		w.group(r, func() {
			for i := 1; i < n; i++ {
				w.send(r, mod(r+i, n), w.vector(0), 1)
				w.recv(r, mod(r-i, n), Scratch(i-1), 1)
			}
		})
		w.sum(r, n-1, w.vector(0))
	}
}

// fold runs a reduction that needs a power of two ranks on any number n. Each surplus rank sends its
// vector to a neighbour before the reduction, and receives the sum after it.
func fold(w *writer, n int, reduce func(team []int)) {
	surplus := n - 1<<log2(n)
	var team []int
	for r := range n {
		if r >= 2*surplus || r%2 == 1 {
			team = append(team, r)
		}
	}
	for i := range surplus {
		w.send(2*i, 2*i+1, 0, w.Chunks)
		w.recvReduce(2*i+1, 2*i, 0, w.Chunks)
	}
	reduce(team)
	for i := range surplus {
		w.send(2*i+1, 2*i, 0, w.Chunks)
		w.recv(2*i, 2*i+1, 0, w.Chunks)
	}
}

// doublingReduce exchanges whole vectors with the rank at distance 1, 2, 4, … and adds them.
func doublingReduce(w *writer, n int) {
	fold(w, n, func(team []int) {
		for d := 1; d < len(team); d *= 2 {
			for i, r := range team {
				w.exchange(r, team[i^d], w.vector(0), team[i^d], Scratch(0), 1)
				w.add(r, Op{Kind: Reduce, Src: Scratch(0), Dst: w.vector(0), Count: 1})
			}
		}
	})
}

// rabenseifner is a recursive halving reduce_scatter followed by a recursive doubling all_gather.
func rabenseifner(w *writer, n int) {
	fold(w, n, func(team []int) {
		w.scatterReduce(func(w *writer) { doublingGather(w, team) })
		doublingGather(w, team)
	})
}

// torusReduce scatters sums in rows, then in columns, and gathers in columns, then in rows. In its row,
// member x owns the chunks of all ranks of column x. columnsFirst exchanges rows and columns.
func torusReduce(w *writer, s Shape, columnsFirst bool) {
	outer, inner := eachRow, eachColumn
	wide := s.height()
	if columnsFirst {
		outer, inner = inner, outer
		wide = s.Width
	}
	super := w.on(int(w.stream), w.base, wide*w.unit)
	within := func(f func(w *writer, team []int)) {
		at := w.base
		inner(s, func(team []int) {
			f(w.on(int(w.stream), at, w.unit), team)
			at += wide * w.unit
		})
	}
	outer(s, func(team []int) { ringScatter(super, team, 1) })
	within(func(w *writer, team []int) { ringScatter(w, team, 1) })
	within(func(w *writer, team []int) { ringGather(w, team, 1) })
	outer(s, func(team []int) { ringGather(super, team, 1) })
}

// torusHalvesReduce keeps both dimensions busy: one half of the vector is reduced in rows first, the
// other in columns first.
func torusHalvesReduce(w *writer, s Shape) {
	torusReduce(w.on(0, 0, 1), s, false)
	torusReduce(w.on(1, s.Ranks, 1), s, true)
}

// chainReduce adds up the vectors along a line, and passes the sum back from its last member.
func chainReduce(w *writer, line []int) {
	for i, r := range line {
		if i > 0 {
			w.recvReduce(r, line[i-1], w.vector(0), 1)
		}
		if i < len(line)-1 {
			w.send(r, line[i+1], w.vector(0), 1)
		}
	}
	for i, r := range line {
		if i < len(line)-1 {
			w.recv(r, line[i+1], w.vector(0), 1)
		}
		if i > 0 {
			w.send(r, line[i-1], w.vector(0), 1)
		}
	}
}

// meshChainReduce adds up the vectors along each row of a grid, and then along each column.
func meshChainReduce(w *writer, s Shape) {
	eachRow(s, func(row []int) { chainReduce(w, row) })
	eachColumn(s, func(column []int) { chainReduce(w, column) })
}

// cycle returns all ranks of a grid in an order in which each rank is a neighbour of the next, and the last rank
// is a neighbour of the first. Width and height must be at least 2, and one of them even.
func cycle(width, height int) []int {
	at := func(x, y int) int { return y*width + x }
	if height%2 != 0 { // use the transposed grid, whose height is even
		transposed := cycle(height, width)
		for i, r := range transposed {
			transposed[i] = at(r/height, r%height)
		}
		return transposed
	}
	var ranks []int
	for y := range height { // column 0 is left for the way back
		row := make([]int, 0, width-1)
		for x := 1; x < width; x++ {
			row = append(row, at(x, y))
		}
		if y%2 == 1 {
			slices.Reverse(row)
		}
		ranks = append(ranks, row...)
	}
	for y := height - 1; y >= 0; y-- {
		ranks = append(ranks, at(0, y))
	}
	return ranks
}

// swingPartner returns the partner of rank r in step s, at distance (1−(−2)^(s+1))/3 = 1, −1, 3, −5, …
// in one direction for even ranks and in the other for odd ranks.
func swingPartner(r, s, n int) int {
	power := 1
	for range s + 1 {
		power *= -2
	}
	distance := (1 - power) / 3
	if r%2 == 1 {
		distance = -distance
	}
	return mod(r+distance, n)
}

// swingReach returns r and the ranks that it reaches by the steps from s on, in ascending order.
func swingReach(r, s, n int) []int {
	reach := []int{r}
	for step := s; step < log2(n); step++ {
		for _, q := range slices.Clone(reach) {
			reach = append(reach, swingPartner(q, step, n))
		}
	}
	slices.Sort(reach)
	return slices.Compact(reach)
}

// swingReduce is a reduce_scatter and an all_gather between the pairs of swingPartner.
func swingReduce(w *writer, n int) {
	gather := func(w *writer) {
		for s := log2(n) - 1; s >= 0; s-- {
			for r := range n {
				partner := swingPartner(r, s, n)
				w.exchangeParts(r, partner, runs(swingReach(r, s+1, n)), partner, runs(swingReach(partner, s+1, n)))
			}
		}
	}
	w.scatterReduce(gather)
	gather(w)
}

// runs joins consecutive chunks of an ascending list into parts.
func runs(chunks []int) (parts []part) {
	for _, k := range chunks {
		if last := len(parts) - 1; last >= 0 && parts[last].first+parts[last].count == k {
			parts[last].count++
		} else {
			parts = append(parts, part{k, 1})
		}
	}
	return parts
}

// tree is a binary tree over n ranks: the parent of each, −1 for the root, and its children.
type tree struct {
	parent   []int
	children [][]int
}

// binaryTree returns NCCL's binary tree. Rank 0 is the root. With b the lowest set bit of r, the parent of r is
// (r⊕b)|2b or, if there is no such rank, r⊕b.
func binaryTree(n int) tree {
	t := tree{make([]int, n), make([][]int, n)}
	for r := range n {
		if r == 0 {
			t.parent[0] = -1
			continue
		}
		b := r & -r
		p := (r ^ b) | 2*b
		if p >= n {
			p = r ^ b
		}
		t.parent[r] = p
		t.children[p] = append(t.children[p], r)
	}
	return t
}

// renamed returns the tree with rank name(r) in the place of r.
func (t tree) renamed(name func(r int) int) tree {
	n := len(t.parent)
	to := tree{make([]int, n), make([][]int, n)}
	for r, p := range t.parent {
		to.parent[name(r)] = -1
		if p >= 0 {
			to.parent[name(r)] = name(p)
		}
		for _, c := range t.children[r] {
			to.children[name(r)] = append(to.children[name(r)], name(c))
		}
	}
	return to
}

// treeReduce adds the segments of each half of the vector up a binary tree, and sends the sums down. The
// second tree is the first one mirrored if n is even, and shifted by one rank if n is odd.
func treeReduce(w *writer, s Shape) {
	n := s.Ranks
	first := binaryTree(n)
	second := first.renamed(func(r int) int {
		if n%2 == 0 {
			return n - 1 - r
		}
		return (r + 1) % n
	})
	for half, t := range []tree{first, second} {
		up, down := w.on(2*half, half*s.Segments, 1), w.on(2*half+1, half*s.Segments, 1)
		for segment := range s.Segments {
			at := up.vector(segment)
			for r := range n {
				after := -1
				for _, c := range t.children[r] {
					after = up.recvReduce(r, c, at, 1)
				}
				if t.parent[r] >= 0 {
					sent := up.send(r, t.parent[r], at, 1)
					after = down.add(r, Op{Kind: Recv, Peer: int32(t.parent[r]), Dst: at, Count: 1}, sent)
				}
				for _, c := range t.children[r] {
					down.add(r, Op{Kind: Send, Peer: int32(c), Src: at, Count: 1}, after)
				}
			}
		}
	}
}
