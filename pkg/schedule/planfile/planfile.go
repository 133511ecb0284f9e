// Package planfile reads and writes execution plans of other systems: MSCCL's XML and MSCCL++'s JSON. It
// also writes Chakra's execution traces.
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
	// OutOfPlace is the same plan run out of place, if the file is for both placements; nil otherwise.
	OutOfPlace *Plan
	// Notes are warnings about what the plan's own system, MSCCL or MSCCL++, does with the plan. Each begins
	// with file, line and column.
	Notes []string

	file      string
	placement string       // the placement that Program is for, if the file is for both
	ops       [][]position // by rank and op: where the op is in the file
}

// note adds a note about a position in the file.
func (p *Plan) note(at position, format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf("%s: %s", at.in(p.file), fmt.Sprintf(format, args...)))
}

// Verify verifies the plan for each of its placements. It returns the findings as an error: a
// schedule.Findings for each placement that has any, joined. It also fails as schedule.Verify does. uniform
// reports whether schedule.Report.Uniform holds for all placements.
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

// Find formats a finding in the plan's program as one line. The line begins with file, line and column of the
// op, or with the file alone if the finding is about no op.
func (p *Plan) Find(f schedule.Finding) string {
	at := p.file
	if f.Rank >= 0 && f.Op >= 0 {
		at = p.ops[f.Rank][f.Op].in(p.file)
	}
	if p.placement != "" {
		return fmt.Sprintf("%s: %s: %s", at, p.placement, f)
	}
	return fmt.Sprintf("%s: %s", at, f)
}

// Read parses a plan in either format. name is the file's name. Errors begin with name, line and column.
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
		return nil, fmt.Errorf("%s:1:1: the file is neither XML of MSCCL nor JSON of MSCCL++", name)
	}
}

// The formats that plans are written in: MSCCL's XML and MSCCL++'s JSON.
const (
	MSCCL   = "msccl"
	MSCCLPP = "mscclpp"
)

var formats = []string{MSCCL, MSCCLPP}

// Write writes a program as a plan in a format, MSCCL or MSCCLPP. It fails if the format cannot express the
// program.
func Write(w io.Writer, p *schedule.Program, format string) error {
	switch format {
	case MSCCL:
		return writeXML(w, p)
	case MSCCLPP:
		return writeJSON(w, p)
	}
	return fmt.Errorf("unknown format %q, must be one of %v", format, formats)
}

// position is a line and a column in a file, both from 1.
type position struct{ line, column int }

func (p position) in(file string) string { return fmt.Sprintf("%s:%d:%d", file, p.line, p.column) }

// Limits of a plan. Without them, a few bytes of a file could demand any amount of memory.
const (
	maxRanks  = 2048
	maxSlots  = 1 << 24 // of all ranks together
	maxBlocks = 4096    // of all ranks together; verification needs memory in proportion to their square
)

// threadBlock is a sequence of steps that run in order. A step starts after the steps of other blocks of the rank
// that are in step.after.
type threadBlock struct{ steps []step }

// step is a step of a thread block; position is where it is in the file.
type step struct {
	position
	ops   []schedule.Op
	after []stepOf
}

// stepOf identifies a step of a rank by its thread block and its index there.
type stepOf struct{ block, step int }

// assemble appends the blocks of a rank to a program, each as a stream, and returns the positions of the ops
// that it appended. The order of the ops depends only on the blocks and their dependencies. If steps wait for
// each other in a cycle, stuck is one of them.
func assemble(p *schedule.Program, r int, blocks []threadBlock) (at []position, stuck *step) {
	next := make([]int, len(blocks))
	last := make([][]int, len(blocks)) // by block and step: the block's last op so far, or −1
	inherited := make([][][]int, len(blocks))
	for b := range blocks {
		last[b] = slices.Repeat([]int{-1}, len(blocks[b].steps))
		inherited[b] = make([][]int, len(blocks[b].steps))
	}
	// The next op of the block, and the steps that wait for a step without ops, inherit the
	// dependencies of that step.
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

// lastOfStreams keeps, of some ops, the last one of each stream, since it ends after the others. It returns
// them in ascending order. some is overwritten.
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
	blocks []threadBlock
	last   []stepOf // by op of the program: its step
	known  [][]int  // by waiting block and awaited block: the last step waited for, or −1
}

// add appends an op to a block, to run after steps of other blocks, and returns its step. It omits steps that
// the block has already waited for.
func (l *lowered) add(b int, o schedule.Op, after []stepOf) stepOf {
	for len(l.known) <= b {
		l.known = append(l.known, nil)
		l.blocks = append(l.blocks, threadBlock{})
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

// latest keeps, of some steps, the last one of each block. It returns them in ascending order. steps is
// overwritten.
func latest(steps []stepOf) []stepOf {
	slices.SortFunc(steps, func(a, b stepOf) int { return cmp.Or(a.block-b.block, b.step-a.step) })
	return slices.CompactFunc(steps, func(a, b stepOf) bool { return a.block == b.block })
}
