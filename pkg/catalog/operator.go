package catalog

import (
	"github.com/collectivex/collectivex/pkg/operator"
)

// ParseOperator reads an operator file as strictly as the definitions. It may list
// platforms that no definitions at hand have: one file serves a fleet. Errors name places
// in file and no values.
func ParseOperator(file string, data []byte) (operator.Values, error) {
	var out operator.Values
	d := newDecoder()
	d.Private = true
	d.Read(file, data, &out)
	return out, d.Err()
}
