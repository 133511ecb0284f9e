package result

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/strictjson"
)

// ErrForeign is wrapped if JSON is not a document known to this version.
var ErrForeign = errors.New("not a document of this program")

// Decode reads one document of any known record type, and does not validate it: use an Inspector for that.
func Decode(data []byte) (Document, error) {
	k, err := kindOf(data)
	if err != nil {
		return nil, err
	}
	d, _, err := k.read(data, strictjson.NewStrings(nil))
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

// kindOf returns the kind of a text, which need not be JSON. If the record type matches but the family does not, the
// kind refuses the document when it reads it.
func kindOf(text []byte) (*kind, error) {
	version, record := string(strictjson.Find(text, "version")), strictjson.Unquote(strictjson.Find(text, "record_type"))
	of := kinds()[record]
	if version != strconv.Itoa(Version) || of == nil {
		err := strictjson.Unmarshal(text, &struct{}{})
		switch {
		case errors.Is(err, strictjson.ErrForm):
			return nil, fmt.Errorf("%w: %w", ErrForeign, err)
		case err != nil:
			return nil, err
		case of == nil:
			return nil, fmt.Errorf("%w: record_type %q", ErrForeign, record)
		}
		return nil, fmt.Errorf("%w: version %.9s", ErrForeign, version)
	}
	family := plan.Family(strictjson.Unquote(strictjson.Find(text, "identity", "case", "family")))
	i := slices.IndexFunc(of, func(k *kind) bool { return k.family.Name == family })
	return of[max(i, 0)], nil
}

// read reads a document of the kind; its case must belong to the kind's family. See strictjson.Form.DecodeScreened.
func (k *kind) read(text []byte, s *strictjson.Strings) (d Document, compact bool, err error) {
	d = reflect.New(reflect.TypeOf(k.family.Document)).Interface().(Document)
	if compact, err = k.form.DecodeScreened(text, d, s); err != nil {
		return nil, false, err
	}
	if c := d.Head().Identity.Case; c.Family != k.family.Name {
		return nil, false, fmt.Errorf("%w: a %s of family %q", strictjson.ErrForm, d.Head().RecordType, c.Family)
	}
	return d, compact, nil
}
