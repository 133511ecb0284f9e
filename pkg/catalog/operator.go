package catalog

import (
	"github.com/collectivex/collectivex/pkg/operator"
)

// ParseOperator reads an operator file as strictly as the definitions. It may list platforms that the
// definitions lack: one file serves a fleet. Errors have positions in file and no values.
func ParseOperator(file string, data []byte) (operator.Values, error) {
	var out operator.Values
	d := newDecoder()
	d.Private = true
	d.Read(file, data, &out)
	return out, d.Err()
}
