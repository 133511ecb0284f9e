// Package kernels is the source of the device kernels: one text that CUDA's and
// HIP's run-time compilers both take.
package kernels

import (
	"embed"
	"fmt"
)

//go:embed *.cu
var files embed.FS

// Source returns the named kernels behind the prelude, ready to be compiled.
func Source(name string) (string, error) {
	body, err := files.ReadFile(name + ".cu")
	if err != nil {
		return "", fmt.Errorf("kernels %s: %w", name, err)
	}
	return Complete(string(body)), nil
}

//go:embed prelude.cu
var prelude string

// Complete returns kernels of another package behind the prelude.
func Complete(body string) string { return prelude + body }
