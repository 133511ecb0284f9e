package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/registry"
	"github.com/collectivex/collectivex/pkg/strictjson"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Family names a kind of measurement. A family owns the block of its cases, its
// rows and its record types.
type Family string

// Block holds the family's fields of a case: a pointer to a struct whose fields have JSON names that no
// field of Case has, and an `in` tag if their values are from a closed list (see package vocab). Its
// fields are strings, numbers, structs, and slices of them.
type Block interface {
	// Factors appends the factors of c's id between its backend and its repeat. Ids omit empty ones.
	Factors(c *Case, to []string) []string
}

// Descriptor describes a family to plans.
type Descriptor struct {
	Name  Family
	Block Block // an empty one
	// Upstream reports whether CollectiveX itself plans c; see Case.Upstream. It is nil for a family that
	// CollectiveX does not have.
	Upstream func(c *Case) bool
}

var families = registry.New(func(f Descriptor) string { return string(f.Name) })

// Register adds a family. Call it from init functions only: it panics if the family is already
// registered, and once a case has been read.
func Register(d Descriptor) { families.Add(d) }

// Families returns the families in the order of their registration.
func Families() []Descriptor { return families.All() }

// NewBlock returns an empty block of a family, or nil if it is not registered.
func NewBlock(name Family) Block {
	f, ok := families.Find(string(name))
	if !ok {
		return nil
	}
	return reflect.New(reflect.TypeOf(f.Block).Elem()).Interface().(Block)
}

// Types returns the closed lists and blocks for reading a matrix or a case strictly.
func Types() strictjson.Types {
	t := strictjson.Types{Lists: strictjson.Lists{"version": {MatrixVersion}, "format": {Format}}, Blocks: map[string]any{}}
	for kind, words := range vocab.Kinds() {
		for _, w := range words {
			t.Lists[kind] = append(t.Lists[kind], w)
		}
	}
	for _, f := range families.All() {
		t.Blocks[string(f.Name)] = reflect.ValueOf(f.Block).Elem().Interface()
	}
	return t
}

// UnmarshalJSON reads a case of a registered family.
func (c *Case) UnmarshalJSON(text []byte) error {
	type common Case // without this method
	var of common
	if err := strictjson.Unmarshal(text, &of); err != nil {
		return err
	}
	if of.Block = NewBlock(of.Family); of.Block == nil {
		return fmt.Errorf("family %q is not one of %s", of.Family, strings.Join(names(), ", "))
	}
	*c = Case(of)
	return strictjson.Unmarshal(text, c.Block)
}

// names lists the families by name.
func names() (names []string) {
	for _, f := range families.All() {
		names = append(names, string(f.Name))
	}
	slices.Sort(names)
	return names
}

// MarshalJSON writes the common fields and the fields of the block as one object.
func (c Case) MarshalJSON() ([]byte, error) {
	type common Case // without this method
	text, err := plain(common(c))
	if err != nil || c.Block == nil {
		return text, err
	}
	block, err := plain(c.Block)
	if err != nil || len(block) == len("{}") {
		return text, err
	}
	return slices.Concat(text[:len(text)-1], []byte{','}, block[1:]), nil
}

// plain encodes v without escaping HTML, which is left to the caller's encoder.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
