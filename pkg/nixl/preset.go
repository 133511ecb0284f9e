package nixl

import (
	"fmt"
	"os"
)

// Preset returns an error if one of the variables is set by which the lane of a case decides what UCX
// uses, with which NIXL moves data.
func Preset(variables ...string) error {
	for _, name := range variables {
		if value, ok := os.LookupEnv(name); ok {
			return fmt.Errorf("%s=%s: the lane of the case decides what UCX uses: unset it", name, value)
		}
	}
	return nil
}
