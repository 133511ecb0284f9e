package schedule

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Shape has the parameters that a program is generated for.
type Shape struct {
	Ranks int
	// Width is the number of ranks in a row of a grid, or of ranks on a node of a hierarchy. Rank
	// y·Width + x is in column x of row y.
	Width int
	// Segments is the number of pieces in which a tree pipelines each half of its vector.
	Segments int
}

// DefaultSegments is the default number of segments.
const DefaultSegments = 8

// WithDefaults returns the shape with zeros replaced: Width by the number of ranks, and Segments by
// DefaultSegments.
func (s Shape) WithDefaults() Shape {
	s.Width, s.Segments = cmp.Or(s.Width, s.Ranks), cmp.Or(s.Segments, DefaultSegments)
	return s
}

func (s Shape) height() int { return s.Ranks / s.Width }

// Algorithm is a schedule known by name, which generates its programs.
type Algorithm struct {
	Name       string
	Collective Collective
	// Rule describes in one line what the ranks do.
	Rule string
	// refuse returns why the algorithm has no program for a shape, or "" if it has one. nil allows all shapes.
	refuse func(Shape) string
	// sizes returns the number of chunks of the vector and of slots of scratch memory.
	sizes func(Shape) (chunks, scratch int)
	build func(w *writer, s Shape)
}

// maxRanks limits the memory of a program, which grows with the square of its ranks. A ring of 2048
// ranks takes half a gigabyte, and its verification two.
const maxRanks = 2048

// Allows returns an error if the algorithm has no program for s. The error says which shapes are valid.
func (a *Algorithm) Allows(s Shape) error {
	if s.Ranks < 1 || s.Ranks > maxRanks {
		return fmt.Errorf("%s %s: %d ranks, must be from 1 to %d", a.Name, a.Collective, s.Ranks, maxRanks)
	}
	if s.Width < 0 {
		return fmt.Errorf("%s %s: width %d, must not be negative", a.Name, a.Collective, s.Width)
	}
	if s.Segments < 0 {
		return fmt.Errorf("%s %s: segments %d, must not be negative", a.Name, a.Collective, s.Segments)
	}
	if a.refuse != nil {
		if why := a.refuse(s); why != "" {
			return fmt.Errorf("%s %s: %s", a.Name, a.Collective, why)
		}
	}
	return nil
}

// HasWidth reports whether the program depends on the width of the shape.
func (a *Algorithm) HasWidth() bool {
	return a.refuse != nil && a.refuse(Shape{Ranks: 4, Segments: 1}) != ""
}

// HasSegments reports whether the program depends on the segments of the shape.
func (a *Algorithm) HasSegments() bool {
	return a.refuse != nil && a.refuse(Shape{Ranks: 4, Width: 2}) != ""
}

// Unused returns an error if given has a width or segments, and none of the named schedules depends on
// them. It ignores unknown names, which Find reports.
func Unused(c Collective, names []string, given Shape) error {
	var width, segments bool
	for _, name := range names {
		a, err := Find(name, c)
		if err != nil {
			return nil
		}
		width, segments = width || a.HasWidth(), segments || a.HasSegments()
	}
	unused := func(what string, n int) error {
		return fmt.Errorf("%s %d is not used by %s %s: leave it out", what, n, c, strings.Join(names, ", "))
	}
	switch {
	case given.Width > 0 && !width:
		return unused("width", given.Width)
	case given.Segments > 0 && !segments:
		return unused("segments", given.Segments)
	}
	return nil
}

// ShapeOf returns the shape that a schedule is generated for. Zeros are replaced as in WithDefaults;
// then Width and Segments are 0 if the schedule does not depend on them. It fails as Find and Allows
// do. If Allows fails, the shape is returned with the error.
func ShapeOf(name string, c Collective, asked Shape) (Shape, error) {
	a, err := Find(name, c)
	if err != nil {
		return Shape{}, err
	}
	s := asked.WithDefaults()
	err = a.Allows(s)
	if !a.HasWidth() {
		s.Width = 0
	}
	if !a.HasSegments() {
		s.Segments = 0
	}
	return s, err
}

// Label returns the name of a schedule with its width and segments, such as torus_2d-x4. s must be as
// ShapeOf returns it.
func Label(name string, s Shape) string {
	if s.Width > 0 {
		name += "-x" + strconv.Itoa(s.Width)
	}
	if s.Segments > 0 {
		name += "-s" + strconv.Itoa(s.Segments)
	}
	return name
}

// Generate returns the program for a shape. It fails as Allows does.
func (a *Algorithm) Generate(s Shape) (*Program, error) {
	if err := a.Allows(s); err != nil {
		return nil, err
	}
	chunks, scratch := a.sizes(s)
	p, w := newProgram(a.Name, a.Collective, s.Ranks, chunks, scratch)
	a.build(w, s)
	return p, nil
}

// Generate returns the program of a schedule for a shape. It fails as Find and Allows do.
func Generate(name string, c Collective, s Shape) (*Program, error) {
	a, err := Find(name, c)
	if err != nil {
		return nil, err
	}
	return a.Generate(s)
}

// Find returns the algorithm with a name for a collective. The error lists the names to choose from.
func Find(name string, c Collective) (*Algorithm, error) {
	var names []string
	for i := range algorithms {
		a := &algorithms[i]
		if a.Collective != c {
			continue
		}
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	if names == nil {
		return nil, fmt.Errorf("no schedules of collective %q: choose %s, %s or %s", c, AllGather, AllReduce, ReduceScatter)
	}
	if here := foreignNames[name]; slices.Contains(names, here) {
		return nil, fmt.Errorf("no schedule %q for %s: it is called %s here", name, c, here)
	}
	return nil, fmt.Errorf("no schedule %q for %s: choose one of %s", name, c, strings.Join(names, ", "))
}

// foreignNames maps names of schedules in other systems to their names here.
var foreignNames = map[string]string{
	"cyclic": "ring", "ring_1d": "ring", "collective_permute": "rotation", "swizzle1d": "rotation",
	"pipe_band": "hierarchical_banded", "mesh_2d_no_wrap": "mesh_chain",
}

// Algorithms returns all algorithms, sorted by collective and name.
func Algorithms() []Algorithm { return slices.Clone(algorithms) }

// The following functions are values of Algorithm.refuse.

func powerOfTwo(s Shape) string {
	if bits.OnesCount(uint(s.Ranks)) != 1 {
		return fmt.Sprintf("%d ranks, must be a power of two", s.Ranks)
	}
	return ""
}

func grid(s Shape) string {
	if s.Width < 1 || s.Ranks%s.Width != 0 {
		return fmt.Sprintf("%d ranks in rows of %d, must fill each row", s.Ranks, s.Width)
	}
	return ""
}

func evenGrid(s Shape) string {
	if why := grid(s); why != "" {
		return why
	}
	if s.Width < 2 || s.height() < 2 || s.Ranks%2 != 0 {
		return fmt.Sprintf("a grid of %d×%d has no cycle of neighbours: it needs at least 2 rows, at least 2 columns and an even number of ranks", s.Width, s.height())
	}
	return ""
}

func streams(s Shape) string {
	if s.Ranks > 256 {
		return fmt.Sprintf("%d ranks, must be at most 256: each needs its own stream", s.Ranks)
	}
	return ""
}

// maxSegments limits the memory of a program, like maxRanks.
const maxSegments = 1024

func segmented(s Shape) string {
	if s.Segments < 1 || s.Segments > maxSegments {
		return fmt.Sprintf("%d segments, must be from 1 to %d", s.Segments, maxSegments)
	}
	return ""
}

// The following functions are values of Algorithm.sizes.

func perRank(s Shape) (int, int)   { return s.Ranks, 0 }
func fromAll(s Shape) (int, int)   { return s.Ranks, s.Ranks - 1 }
func whole(s Shape) (int, int)     { return 1, 1 }
func relayed(s Shape) (int, int)   { return 1, 2 } // a vector to send while another arrives
func onePhase(s Shape) (int, int)  { return 1, s.Ranks - 1 }
func halves(s Shape) (int, int)    { return 2 * s.Ranks, 0 }
func untouched(s Shape) (int, int) { return 1, 0 }
func folded(s Shape) (int, int)    { return 1 << log2(s.Ranks), 0 }

// log2 returns ⌊log₂ n⌋.
func log2(n int) int { return bits.Len(uint(n)) - 1 }

var algorithms = []Algorithm{
	{"bidirectional", AllGather, "chunks travel both ways round the ring", nil, perRank, func(w *writer, s Shape) { bidirectionalGather(w, s.Ranks) }},
	{"bruck", AllGather, "the blocks gathered so far to r−2^t", nil, perRank, func(w *writer, s Shape) { bruckGather(w, s.Ranks) }},
	{"direct", AllGather, "own chunk to every other rank at once", nil, perRank, func(w *writer, s Shape) { directGather(w, s.Ranks) }},
	{"hierarchical_banded", AllGather, "two bands of the slice: rings between nodes beside pushes inside them", grid, halves, bandedGather},
	{"hierarchical_sliced", AllGather, "own slice round the nodes, then every slice to the ranks of the node", grid, perRank, slicedGather},
	{"hierarchical_staged", AllGather, "the block of the node inside it, then blocks round the nodes", grid, perRank, stagedGather},
	{"line", AllGather, "chunks travel both ways on a line", nil, perRank, func(w *writer, s Shape) { lineGather(w, s.Ranks) }},
	{"pat", AllGather, "parallel aggregated trees", nil, perRank, func(w *writer, s Shape) { patGather(w, s.Ranks) }},
	{"recursive_doubling", AllGather, "the block of 2^t ranks to r⊕2^t", powerOfTwo, perRank, func(w *writer, s Shape) { doublingGather(w, everyRank(s.Ranks)) }},
	{"ring", AllGather, "chunk r−t to r+1", nil, perRank, func(w *writer, s Shape) { ringGather(w, everyRank(s.Ranks), 1) }},
	{"rotation", AllGather, "own chunk to r−i, chunk r+i from r+i", nil, perRank, func(w *writer, s Shape) { rotationGather(w, s.Ranks) }},
	{"stream_broadcast", AllGather, "chunk i from rank i, on stream i", streams, perRank, func(w *writer, s Shape) { broadcastGather(w, s.Ranks) }},

	{"bidirectional", AllReduce, "halves of the vector round two opposite rings", nil, halves, bidirectionalReduce},
	{"direct", AllReduce, "direct reduce_scatter and all_gather", nil, fromAll, func(w *writer, s Shape) {
		directScatter(w, s.Ranks)
		directGather(w, s.Ranks)
	}},
	{"direct_one_phase", AllReduce, "the vector to every other rank, which adds all", nil, onePhase, func(w *writer, s Shape) { onePhaseReduce(w, s.Ranks) }},
	{"double_tree", AllReduce, "halves of the vector up and down two binary trees", segmented, func(s Shape) (int, int) { return 2 * s.Segments, 0 }, treeReduce},
	{"doubling", AllReduce, "the vector with r⊕2^t", nil, whole, func(w *writer, s Shape) { doublingReduce(w, s.Ranks) }},
	{"mesh_chain", AllReduce, "rows to the east and back, then columns", grid, untouched, meshChainReduce},
	{"mesh_ring", AllReduce, "ring on a cycle of neighbours in the grid", evenGrid, perRank, func(w *writer, s Shape) { ringReduce(w, cycle(s.Width, s.height())) }},
	{"rabenseifner", AllReduce, "recursive halving reduce_scatter and doubling all_gather", nil, folded, func(w *writer, s Shape) { rabenseifner(w, s.Ranks) }},
	{"ring", AllReduce, "ring reduce_scatter and all_gather", nil, perRank, func(w *writer, s Shape) { ringReduce(w, everyRank(s.Ranks)) }},
	{"ring_full", AllReduce, "whole vectors round the ring", nil, relayed, func(w *writer, s Shape) { ringFullReduce(w, everyRank(s.Ranks)) }},
	{"swing", AllReduce, "partners at distances 1, −1, 3, −5, …", powerOfTwo, perRank, func(w *writer, s Shape) { swingReduce(w, s.Ranks) }},
	{"torus_2d", AllReduce, "rings in rows, then in columns, and back", grid, perRank, func(w *writer, s Shape) { torusReduce(w, s, false) }},
	{"torus_2d_halves", AllReduce, "two halves of the vector, rows first and columns first", grid, halves, torusHalvesReduce},
	{"torus_full", AllReduce, "whole vectors round rows, then round columns", grid, relayed, func(w *writer, s Shape) {
		eachRow(s, func(row []int) { ringFullReduce(w, row) })
		eachColumn(s, func(column []int) { ringFullReduce(w, column) })
	}},

	{"bruck", ReduceScatter, "bruck all_gather in reverse", nil, perRank, func(w *writer, s Shape) { w.scatterReduce(func(w *writer) { bruckGather(w, s.Ranks) }) }},
	{"direct", ReduceScatter, "each chunk to its rank at once", nil, fromAll, func(w *writer, s Shape) { directScatter(w, s.Ranks) }},
	{"pat", ReduceScatter, "parallel aggregated trees", nil, perRank, func(w *writer, s Shape) { w.scatterReduce(func(w *writer) { patGather(w, s.Ranks) }) }},
	{"recursive_halving", ReduceScatter, "the block of the partner's half to r⊕2^t", powerOfTwo, perRank, func(w *writer, s Shape) {
		w.scatterReduce(func(w *writer) { doublingGather(w, everyRank(s.Ranks)) })
	}},
	{"ring", ReduceScatter, "chunk r−t−1 to r+1, added there", nil, perRank, func(w *writer, s Shape) { ringScatter(w, everyRank(s.Ranks), 1) }},
}

// everyRank returns a team of ranks 0 to n−1.
func everyRank(n int) []int {
	team := make([]int, n)
	for r := range team {
		team[r] = r
	}
	return team
}

// eachRow calls f with the ranks of each row of a grid, in order.
func eachRow(s Shape, f func(row []int)) {
	for y := range s.height() {
		row := make([]int, s.Width)
		for x := range row {
			row[x] = y*s.Width + x
		}
		f(row)
	}
}

// eachColumn calls f with the ranks of each column of a grid, in order.
func eachColumn(s Shape, f func(column []int)) {
	for x := range s.Width {
		column := make([]int, s.height())
		for y := range column {
			column[y] = y*s.Width + x
		}
		f(column)
	}
}
