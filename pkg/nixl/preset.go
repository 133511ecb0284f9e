package nixl

import (
	"fmt"
	"os"
)

// Preset returns an error if one of the given variables of the environment is set. They choose the
// transports of UCX, by which NIXL moves data, and the ranks set them for the lane of a case.
func Preset(variables ...string) error {
	for _, name := range variables {
		if value, ok := os.LookupEnv(name); ok {
			return fmt.Errorf("%s=%s: the lane of the case decides what UCX uses: unset it", name, value)
		}
	}
	return nil
}
