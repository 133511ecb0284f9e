// Package kernels holds the source that all device kernels begin with. The run-time compilers of
// CUDA and HIP both accept it.
package kernels

import _ "embed" // the prelude

//go:embed prelude.cu
var prelude string

// Complete returns the prelude followed by body, the kernels of another package.
func Complete(body string) string { return prelude + body }
