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
	text, err := strictjson.Screen(data, nil)
	if err != nil {
		return nil, err
	}
	k, err := kindOf(text)
	if err != nil {
		return nil, err
	}
	return k.read(text)
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

// kindOf returns the kind of a text that strictjson.Screen has accepted. If the record type matches but the family
// does not, the kind refuses the document when it reads it.
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

// read reads a document of the kind; its case must belong to the kind's family.
func (k *kind) read(text []byte) (Document, error) {
	d := reflect.New(reflect.TypeOf(k.family.Document)).Interface().(Document)
	if err := k.form.Decode(text, d); err != nil {
		return nil, err
	}
	if c := d.Head().Identity.Case; c.Family != k.family.Name {
		return nil, fmt.Errorf("%w: a %s of family %q", strictjson.ErrForm, d.Head().RecordType, c.Family)
	}
	return d, nil
}
