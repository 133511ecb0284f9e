// Package kernels has the source of the device kernels. The run-time compilers of CUDA and
// HIP both accept it.
package kernels

import (
	"embed"
	"fmt"
)

//go:embed *.cu
var files embed.FS

// Source returns the prelude and the named kernels, ready to compile.
func Source(name string) (string, error) {
	body, err := files.ReadFile(name + ".cu")
	if err != nil {
		return "", fmt.Errorf("kernels %s: %w", name, err)
	}
	return Complete(string(body)), nil
}

//go:embed prelude.cu
var prelude string

// Complete returns the prelude and body, the kernels of another package.
func Complete(body string) string { return prelude + body }
