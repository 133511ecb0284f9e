package nixl

import (
	"fmt"
	"os"
)

// PresetError is a variable of the environment by which UCX would take other transports than those
// of a case.
type PresetError struct{ Variable, Value string }

func (e *PresetError) Error() string {
	return fmt.Sprintf("%s=%s: the lane of the case decides what UCX uses: unset it", e.Variable, e.Value)
}

// Preset returns a PresetError if one of the given variables of the environment is set. They choose the
// transports of UCX, by which NIXL moves data, and the ranks set them for the lane of a case.
func Preset(variables ...string) error {
	for _, name := range variables {
		if value, ok := os.LookupEnv(name); ok {
			return &PresetError{Variable: name, Value: value}
		}
	}
	return nil
}
