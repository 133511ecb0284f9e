package runner

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/result"
)

// repeatableRecord is what one rank found in the repeatability pass of a rung. First.Rank is not set.
type repeatableRecord struct {
	TokensPerRank int `json:"tokens_per_rank"`
	result.Repeatability
}

// repeatable combines one dispatched input of each rung as often as the case requires, untimed, and emits where
// results differ from the first one. The input is the chosen rows, whose sums depend on their order.
func (m *run) repeatable() error {
	if m.block.Repeatable == 0 {
		return nil
	}
	for _, p := range m.points {
		if err := m.bind(p); err != nil {
			return err
		}
		v, err := m.combineAgain(p)
		if err != nil {
			return fmt.Errorf("rung %d, repeated combine: %w", p.TokensPerRank, err)
		}
		if err := m.Emit(kindRepeatable, repeatableRecord{p.TokensPerRank, v}); err != nil {
			return err
		}
	}
	return nil
}

// combineAgain combines the chosen rows again and again, and compares the results of this rank with the first
// one. If every combine needs its own dispatch, it sends the same input each time.
func (m *run) combineAgain(p *point) (v result.Repeatability, err error) {
	o := &p.oracle
	bytes := min(2*o.values(), result.MaxCompared)
	v = result.Repeatability{Operations: m.block.Repeatable, Compared: int64(bytes / 2)}
	var first []byte
	declared := true
	for i := range v.Operations {
		if i == 0 || m.d.FreshPair {
			if err := m.stageChosen(o); err != nil {
				return v, err
			}
		}
		if i > 0 && bytes > 0 { // so that a combine that does nothing is found
			if err := m.device.Set(m.stream, m.left.out, byte(i), int64(bytes)); err != nil {
				return v, err
			}
		}
		if err := (steps{m.combine, m.stream.Synchronize}).do(); err != nil {
			return v, err
		}
		out, err := accel.Read[byte](m.device, m.stream, m.left.out, bytes)
		if err != nil {
			return v, err
		}
		if i == 0 {
			first = out
		} else if !v.Compare(first, out, 2, i) {
			continue
		}
		if declared {
			_, wrong, err := m.data.declared(o, m.left.out)
			if err != nil {
				return v, err
			}
			declared = wrong == 0
		}
	}
	if f := v.First; f != nil {
		token, hidden := f.Element/int64(p.Hidden), int64(p.Hidden)
		f.Token, f.Element = &token, f.Element%hidden
		v.AsDeclared = &declared
	}
	return v, nil
}

// repeatable combines what the ranks found; it stays null if a rank is missing.
func (m *rowMaker) repeatable() {
	if m.block.Repeatable == 0 {
		return
	}
	var all result.Repeatability
	for r, e := range m.ranks {
		found, ok := e.repeated[m.rung]
		if !ok {
			m.row.Complete = false
			return
		}
		all.Add(r, found.Repeatability)
	}
	m.row.Repeatable = &all
}
