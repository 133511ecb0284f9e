package result

import (
	"cmp"
	"fmt"
	"reflect"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/registry"
)

// Family describes the documents of one family.
type Family struct {
	Name plan.Family
	// Records are the record types of its documents: RecordUpstream, if CollectiveX plans cases of the
	// family, and the type of all others. Readers skip unknown ones.
	Records []Record
	// Document and Factors are zero values of the types of its documents, a struct that embeds Envelope, and
	// of identity.case_factors.case; if Factors is nil, that is the case.
	Document, Factors any
	// New returns a document with the given head and no rows.
	New func(head Envelope) Document
	// Comparison returns the part of c's block that must match before two documents may
	// be compared, as a value for encoding/json.
	Comparison func(c *plan.Case) any
	// Settled returns the case on which a document's comparison key is based: its own, with the ranks'
	// choices filled in; nil if cases leave nothing open.
	Settled func(d Document) plan.Case
	// Trials returns how many trials of a case are repeated after a capped clock; nil if none are.
	Trials func(c *plan.Case) int
	// Check reports problems of a document beyond its envelope.
	Check func(p *Problems, d Document)
	// Older returns how a document of an earlier version may differ; nil if there is no
	// earlier version.
	Older func(e *Envelope) Older
}

// RecordUpstream is the record type of cases that CollectiveX itself plans; see plan.Case.Upstream.
const RecordUpstream = "case-attempt"

// Record is a record type, and the title and the name of its JSON Schema. An empty name means the name of
// the type. A type shared by two families needs two names.
type Record struct{ Type, Title, Name string }

// SchemaFile returns the name of the file with the JSON Schema of the record type.
func (r Record) SchemaFile() string { return cmp.Or(r.Name, r.Type) + ".schema.json" }

// Older holds the values that a document of an earlier version has instead of this version's. An empty
// field means that both are equal.
type Older struct{ CaseID, RecordType, ComparisonKey string }

var families = registry.New(func(f *Family) string { return string(f.Name) })

// Register adds a family, whose block is registered with package plan. Call it from init functions only:
// it panics if the family is already registered, and once a document has been made or read.
func Register(f Family) {
	if f.Factors == nil {
		f.Factors = plan.Case{}
	}
	families.Add(&f)
}

// recordType returns the record type of the documents of c.
func (f *Family) recordType(c *plan.Case) string {
	if c.Upstream() {
		return RecordUpstream
	}
	return f.Records[len(f.Records)-1].Type
}

// Families returns the families in the order of their registration.
func Families() []*Family { return families.All() }

// familyOf returns the family of a case, or an error if the family has no documents or the case lacks the
// family's block.
func familyOf(c *plan.Case) (*Family, error) {
	f, ok := families.Find(string(c.Family))
	if !ok || c.Block == nil || reflect.TypeOf(c.Block) != reflect.TypeOf(plan.NewBlock(c.Family)) {
		return nil, fmt.Errorf("case %s: family %q without its block", c.CaseID, c.Family)
	}
	return f, nil
}
