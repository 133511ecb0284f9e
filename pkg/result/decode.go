package result

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/strictjson"
)

// ErrForeign is wrapped if JSON is not a document known to this version.
var ErrForeign = errors.New("not a document of this program")

// Decode reads one document of any known record type. It drops unknown fields, and does not validate: use
// an Inspector for that.
func Decode(data []byte) (Document, error) {
	text, err := strictjson.Screen(data, nil)
	if err != nil {
		return nil, err
	}
	h, err := readHeads(text)
	if err != nil {
		return nil, err
	}
	k, err := h.kind()
	if err != nil {
		return nil, err
	}
	return k.read(text)
}

// kind is a record type of a family.
type kind struct {
	family *Family
	form   *strictjson.Form // for checking documents of unknown origin
}

// kinds are the kinds by record type, which families may share.
var kinds = sync.OnceValue(func() map[string][]*kind {
	all := map[string][]*kind{}
	for _, f := range Families() {
		types := plan.Types()
		types.Behind = f.Factors
		k := &kind{f, strictjson.New(f.Document, types)}
		for _, r := range f.Records {
			all[r.Type] = append(all[r.Type], k)
		}
	}
	return all
})

// read reads a document of the kind; its case must belong to the kind's family.
func (k *kind) read(text []byte) (Document, error) {
	d := reflect.New(reflect.TypeOf(k.family.Document)).Interface().(Document)
	d.Head().Identity.CaseFactors.Case = reflect.New(reflect.TypeOf(k.family.Factors)).Interface()
	if err := strictjson.Unmarshal(text, d); err != nil {
		return nil, err
	}
	if c := d.Head().Identity.Case; c.Family != k.family.Name {
		return nil, fmt.Errorf("%w: a %s of family %q", strictjson.ErrForm, d.Head().RecordType, c.Family)
	}
	return d, nil
}

// heads holds the members that are read from every document.
type heads struct {
	Version     int    `json:"version"`
	RecordType  string `json:"record_type"`
	GeneratedAt string `json:"generated_at"`
	Identity    struct {
		CaseID            string            `json:"case_id"`
		AttemptOrdinal    int               `json:"attempt_ordinal"`
		AllocationFactors AllocationFactors `json:"allocation_factors"`
		Case              struct {
			Family plan.Family `json:"family"`
		} `json:"case"`
	} `json:"identity"`
	Outcome Outcome `json:"outcome"`
}

// readHeads reads the heads of a text that strictjson.Screen has accepted.
func readHeads(text []byte) (h heads, err error) {
	return h, foreign(strictjson.Unmarshal(text, &h))
}

// foreign adds ErrForeign to an error for JSON of another form.
func foreign(err error) error {
	if errors.Is(err, strictjson.ErrForm) {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return err
}

// kind returns the kind of the document. If the record type matches but the family does not, the kind
// refuses the document when it reads it.
func (h *heads) kind() (*kind, error) {
	if h.Version != Version {
		return nil, fmt.Errorf("%w: version %d", ErrForeign, h.Version)
	}
	of := kinds()[h.RecordType]
	if of == nil {
		return nil, fmt.Errorf("%w: record_type %q", ErrForeign, h.RecordType)
	}
	i := slices.IndexFunc(of, func(k *kind) bool { return k.family.Name == h.Identity.Case.Family })
	return of[max(i, 0)], nil
}
