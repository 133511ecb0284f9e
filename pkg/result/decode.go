package result

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/plan"
)

// ErrForeign is wrapped where JSON is no document that this version knows.
var ErrForeign = errors.New("not a document of this program")

// Decode reads one document of any known record type. Unknown fields are
// dropped. The documents it returns are as they were written: use Validate to
// judge them.
func Decode(data []byte) (Document, error) {
	var head struct {
		Version    int    `json:"version"`
		RecordType string `json:"record_type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	var d Document
	switch {
	case head.Version != Version:
		return nil, fmt.Errorf("%w: version %d", ErrForeign, head.Version)
	case head.RecordType == RecordEP:
		d = &EPDocument{Envelope: Envelope{Identity: Identity{CaseFactors: factorsAre(&EPFactors{})}}}
	case head.RecordType == RecordCollective:
		d = &CollectiveDocument{Envelope: Envelope{Identity: Identity{CaseFactors: factorsAre(&plan.Case{})}}}
	default:
		return nil, fmt.Errorf("%w: record_type %q", ErrForeign, head.RecordType)
	}
	if err := json.Unmarshal(data, d); err != nil {
		return nil, err
	}
	return d, nil
}

// factorsAre gives the case factors their type: encoding/json decodes into what
// an interface points at.
func factorsAre(target any) CaseFactors { return CaseFactors{Case: target} }
