package rank

import (
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// Measurer holds the rank side of a family, and the assembly of its documents.
type Measurer struct {
	Family plan.Family
	// Assemble fills the document of a case from the records of its ranks; see shard.Assembler.
	Assemble func(d result.Document, streams []Stream) error
	// Faults lists the kinds of data faults that cases of the family can have.
	Faults []string
	// Points reports whether these faults have points of their own.
	Points bool
	// NoEffect returns why a fault of these kinds has no effect in a case that has its rank, and what to do, or
	// "". If it is nil, all faults have an effect.
	NoEffect func(f Fault, c *plan.Case) string
}

// Idle implements Idle for cases of the family.
func (m *Measurer) Idle(f Fault, c *plan.Case) string {
	switch {
	case !slices.Contains(m.Faults, f.Kind):
		return fmt.Sprintf("cases of family %s have %s", m.Family, strings.Join(m.Faults, ", "))
	case f.At != FaultAtStart && !m.Points:
		return fmt.Sprintf("data faults of family %s have no point %q; leave at= out", m.Family, f.At)
	case m.NoEffect == nil:
		return ""
	}
	return m.NoEffect(f, c)
}
