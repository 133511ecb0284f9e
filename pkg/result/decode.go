package result

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"

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
	d, _, err := kind.read(strictjson.Input{Text: data})
	return d, err
}

// kind is a record type of a family.
type kind struct {
	family *Family
	form   *strictjson.Form
}

// kinds are the kinds by record type.
var kinds = sync.OnceValue(func() map[string]*kind {
	all := map[string]*kind{}
	for _, f := range Families() {
		types := plan.Types()
		types.Behind = f.Factors
		k := &kind{f, strictjson.New(f.Document, types)}
		for _, r := range f.Records {
			all[r.Type] = k
		}
	}
	return all
})

// read reads a document of the kind, whose case must be of its family.
func (k *kind) read(in strictjson.Input) (Document, []byte, error) {
	d := reflect.New(reflect.TypeOf(k.family.Document)).Interface().(Document)
	line, err := k.form.Read(in, d)
	if err != nil {
		return nil, nil, err
	}
	if c := d.Head().Identity.Case; c.Family != k.family.Name {
		return nil, nil, fmt.Errorf("%w: a %s of family %q", strictjson.ErrForm, d.Head().RecordType, c.Family)
	}
	return d, line, nil
}

var kindForm = strictjson.New(recordHead{}, strictjson.Types{})

// recordHead is what says how a document is read.
type recordHead struct {
	Version    int    `json:"version"`
	RecordType string `json:"record_type"`
}

// kindOf returns the kind of the document in data.
func kindOf(data []byte) (*kind, error) {
	for name, k := range kinds() { // as this program writes them
		if bytes.HasPrefix(data, fmt.Appendf(nil, `{"version":%d,"record_type":%q,`, Version, name)) {
			return k, nil
		}
	}
	var head recordHead
	_, err := kindForm.Read(strictjson.Input{Text: data}, &head)
	switch {
	case errors.Is(err, strictjson.ErrForm):
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	case err != nil:
		return nil, err
	}
	return kindNamed(head.Version, head.RecordType)
}

func kindNamed(version int, recordType string) (*kind, error) {
	if version != Version {
		return nil, fmt.Errorf("%w: version %d", ErrForeign, version)
	}
	k := kinds()[recordType]
	if k == nil {
		return nil, fmt.Errorf("%w: record_type %q", ErrForeign, recordType)
	}
	return k, nil
}
