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
	Identity   struct {
		Case struct {
			Family plan.Family `json:"family"`
		} `json:"case"`
	} `json:"identity"`
}

// kindOf returns the kind of the document in data.
func kindOf(data []byte) (*kind, error) {
	for name, of := range kinds() { // as this program writes them
		if bytes.HasPrefix(data, fmt.Appendf(nil, `{"version":%d,"record_type":%q,`, Version, name)) {
			return familyAmong(of, firstFamily(data)), nil
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
	of, err := kindsNamed(head.Version, head.RecordType)
	if err != nil {
		return nil, err
	}
	return familyAmong(of, head.Identity.Case.Family), nil
}

// firstFamily returns the value of the first member "family" in compact JSON. No string
// can hold the text that it looks for, since a quotation mark in one is escaped. The reader
// of the kind refuses a document that hides another family's case behind it.
func firstFamily(data []byte) plan.Family {
	const member = `"family":"`
	_, rest, found := bytes.Cut(data, []byte(member))
	name, _, closed := bytes.Cut(rest, []byte{'"'})
	if !found || !closed {
		return ""
	}
	return plan.Family(name)
}

// familyAmong returns the kind of a family; the first one, which refuses documents of other
// families, if there is none.
func familyAmong(of []*kind, family plan.Family) *kind {
	for _, k := range of {
		if k.family.Name == family {
			return k
		}
	}
	return of[0]
}

func kindsNamed(version int, recordType string) ([]*kind, error) {
	if version != Version {
		return nil, fmt.Errorf("%w: version %d", ErrForeign, version)
	}
	of := kinds()[recordType]
	if of == nil {
		return nil, fmt.Errorf("%w: record_type %q", ErrForeign, recordType)
	}
	return of, nil
}
