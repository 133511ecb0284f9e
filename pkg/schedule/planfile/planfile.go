// Package planfile reads and writes the execution plans of other systems: MSCCL's XML and
// MSCCL++'s JSON. It writes Chakra's execution traces too.
package planfile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// Plan is a program that was read from a file.
type Plan struct {
	Program *schedule.Program
	// OutOfPlace is the plan as it runs out of place, if it is for both placements; nil otherwise.
	OutOfPlace *Plan
	// Notes say, with file, line and column, what the plan's own system makes of it that its
	// author may not expect.
	Notes []string
	file  string
	place string       // that the plan is read for, if it is for both placements
	ops   [][]position // by rank and op
}

// note adds a note about a place in the file.
func (p *Plan) note(at position, format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf("%s: %s", at.in(p.file), fmt.Sprintf(format, args...)))
}

// Verify verifies the plan for each placement that it is for. Its error has schedule.Findings,
// or is that of schedule.Verify; uniform is that of schedule.Report.
func (p *Plan) Verify(ctx context.Context) (uniform bool, err error) {
	report, err := schedule.Verify(ctx, p.Program)
	if err != nil {
		return false, err
	}
	uniform, err = report.Uniform, report.Lines(p.Find)
	if p.OutOfPlace != nil {
		other, wrong := p.OutOfPlace.Verify(ctx)
		uniform, err = uniform && other, errors.Join(err, wrong)
	}
	return uniform, err
}

// Find returns a finding of the plan's program as one line. It begins with file, line and
// column of the op, or with the file alone where the finding is of no op, as that of a result.
func (p *Plan) Find(f schedule.Finding) string {
	at := p.file
	if f.Rank >= 0 && f.Op >= 0 {
		at = p.ops[f.Rank][f.Op].in(p.file)
	}
	if p.place != "" {
		return fmt.Sprintf("%s: %s: %s", at, p.place, f)
	}
	return fmt.Sprintf("%s: %s", at, f)
}

// Read reads a plan in either format. The name is that of the file in errors, each of which
// has file, line and column.
func Read(name string, data []byte) (*Plan, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark
	text := bytes.TrimLeft(data, " \t\r\n")
	switch {
	case len(text) == 0:
		return nil, fmt.Errorf("%s:1:1: the file is empty", name)
	case bytes.HasPrefix(text, []byte("<")):
		return readXML(name, data)
	case bytes.HasPrefix(text, []byte("{")):
		return readJSON(name, data)
	default:
		return nil, fmt.Errorf("%s:1:1: neither XML of MSCCL nor JSON of MSCCL++", name)
	}
}

// The formats that plans are written in: MSCCL's XML and MSCCL++'s JSON.
const (
	MSCCL   = "msccl"
	MSCCLPP = "mscclpp"
)

var formats = []string{MSCCL, MSCCLPP}

// Write writes a program as a plan.
func Write(w io.Writer, p *schedule.Program, format string) error {
	switch format {
	case MSCCL:
		return writeXML(w, p)
	case MSCCLPP:
		return writeJSON(w, p)
	}
	return fmt.Errorf("format %q, must be one of %v", format, formats)
}

// position is a place in a file.
type position struct{ line, column int }

func (p position) in(file string) string { return fmt.Sprintf("%s:%d:%d", file, p.line, p.column) }

// Limits of a plan, which bound what a few bytes of a file can make us allocate.
const (
	mostRanks  = 2048
	mostSlots  = 1 << 24 // of all ranks together
	mostBlocks = 4096    // the same; the memory of a verification grows with their square
)

// block is a thread block: steps that run in order. step.after are steps of other blocks of
// the rank that have to end before.
type block struct{ steps []step }

type step struct {
	position
	ops   []schedule.Op
	after []stepOf
}

type stepOf struct{ block, step int }

// assemble appends the blocks of a rank to a program, each as a stream. The order of the list
// depends on the blocks and what they wait for alone. stuck is a step that waits for itself,
// if there is one.
func assemble(p *schedule.Program, r int, blocks []block) (at []position, stuck *step) {
	next := make([]int, len(blocks))
	last := make([][]int, len(blocks)) // by block and step: the op that it ends with, or −1
	inherited := make([][][]int, len(blocks))
	for b := range blocks {
		last[b] = slices.Repeat([]int{-1}, len(blocks[b].steps))
		inherited[b] = make([][]int, len(blocks[b].steps))
	}
	// A step without ops passes on what it waits for, to the next op of its block and to
	// those that wait for it.
	pending := make([][]int, len(blocks))
	before := slices.Repeat([]int{-1}, len(blocks))
	ready := func(s *step) bool {
		return !slices.ContainsFunc(s.after, func(a stepOf) bool { return next[a.block] <= a.step })
	}
	for moved := true; moved; {
		moved = false
		for b := range blocks {
			for next[b] < len(blocks[b].steps) && ready(&blocks[b].steps[next[b]]) {
				s := &blocks[b].steps[next[b]]
				deps := pending[b]
				for _, a := range s.after {
					if op := last[a.block][a.step]; op >= 0 {
						deps = append(deps, op)
					}
					deps = append(deps, inherited[a.block][a.step]...)
				}
				deps = lastOfStreams(p.Ops[r], deps)
				pending[b] = deps
				for i, o := range s.ops {
					if i > 0 {
						deps = nil
					}
					o.Stream = uint8(b)
					before[b] = p.Append(r, o, deps...)
					pending[b] = nil
					at = append(at, s.position)
				}
				last[b][next[b]], inherited[b][next[b]] = before[b], slices.Clone(pending[b])
				next[b]++
				moved = true
			}
		}
	}
	for b := range blocks {
		if next[b] < len(blocks[b].steps) {
			return at, &blocks[b].steps[next[b]]
		}
	}
	return at, nil
}

// lastOfStreams keeps of some ops the last of each stream, ascending: the others end before it.
// What steps pass on is thus at most one op for each block.
func lastOfStreams(ops []schedule.Op, some []int) []int {
	slices.Sort(some)
	var seen [256]bool
	last := len(some)
	for _, i := range slices.Backward(some) {
		if s := ops[i].Stream; !seen[s] {
			seen[s] = true
			last--
			some[last] = i
		}
	}
	return some[last:]
}

// lowered is a program without groups whose streams are thread blocks.
type lowered struct {
	blocks []block
	last   []stepOf // by op of the program: where it is
	known  [][]int  // by block and other block: the last step that it has waited for
}

// add appends an op to a block, to run after steps of other blocks.
func (l *lowered) add(b int, o schedule.Op, after []stepOf) stepOf {
	for len(l.known) <= b {
		l.known = append(l.known, nil)
		l.blocks = append(l.blocks, block{})
	}
	var needed []stepOf
	for _, a := range after {
		for len(l.known[b]) <= a.block {
			l.known[b] = append(l.known[b], -1)
		}
		if a.block != b && a.step > l.known[b][a.block] {
			needed = append(needed, a)
			l.known[b][a.block] = a.step
		}
	}
	o.Group = 0
	l.blocks[b].steps = append(l.blocks[b].steps, step{ops: []schedule.Op{o}, after: needed})
	return stepOf{b, len(l.blocks[b].steps) - 1}
}

// latest keeps of steps the last of each block, ascending.
func latest(steps []stepOf) []stepOf {
	slices.SortFunc(steps, func(a, b stepOf) int { return cmp.Or(a.block-b.block, b.step-a.step) })
	return slices.CompactFunc(steps, func(a, b stepOf) bool { return a.block == b.block })
}

// nodeEnd returns where the group of op from ends, which alone is one of its own.
func nodeEnd(ops []schedule.Op, from int) int {
	to := from + 1
	for to < len(ops) && ops[from].Group != 0 && ops[to].Group == ops[from].Group {
		to++
	}
	return to
}
