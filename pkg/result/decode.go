package result

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/strictjson"
)

// ErrForeign is wrapped where JSON is no document that this version knows.
var ErrForeign = errors.New("not a document of this program")

// Decode reads one document of any known record type. Unknown fields are
// dropped. The documents it returns are as they were written: use an Inspector to
// judge them.
func Decode(data []byte) (Document, error) {
	kind, err := kindOf(data)
	if err != nil {
		return nil, err
	}
	d, _, err := kind(strictjson.Input{Text: data})
	return d, err
}

// A kind reads the documents of one record type.
type kind func(strictjson.Input) (Document, []byte, error)

// kinds are the kinds by record type. The case factors are of the type that
// their family gives them.
var kinds = map[string]kind{
	RecordEP:         newKind[EPDocument](EPFactors{}),
	RecordEPOther:    newKind[EPDocument](EPFactors{}),
	RecordCollective: newKind[CollectiveDocument](plan.Case{}),
}

func newKind[T any, P interface {
	*T
	Document
}](factors any) kind {
	form := strictjson.New[T](Closed(), factors)
	return func(in strictjson.Input) (Document, []byte, error) {
		d := new(T)
		line, err := form.Read(in, d)
		if err != nil {
			return nil, nil, err
		}
		return P(d), line, nil
	}
}

var kindForm = strictjson.New[struct {
	Version    int    `json:"version"`
	RecordType string `json:"record_type"`
}](nil, nil)

// kindOf returns the kind of the document in data.
func kindOf(data []byte) (kind, error) {
	for name, k := range kinds { // as this program writes them
		if bytes.HasPrefix(data, fmt.Appendf(nil, `{"version":%d,"record_type":%q,`, Version, name)) {
			return k, nil
		}
	}
	var head struct {
		Version    int    `json:"version"`
		RecordType string `json:"record_type"`
	}
	_, err := kindForm.Read(strictjson.Input{Text: data}, &head)
	switch {
	case errors.Is(err, strictjson.ErrForm):
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	case err != nil:
		return nil, err
	case head.Version != Version:
		return nil, fmt.Errorf("%w: version %d", ErrForeign, head.Version)
	case kinds[head.RecordType] == nil:
		return nil, fmt.Errorf("%w: record_type %q", ErrForeign, head.RecordType)
	}
	return kinds[head.RecordType], nil
}
