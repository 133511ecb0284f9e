// Package kernels has what the source of all device kernels begins with. The run-time
// compilers of CUDA and HIP both accept it.
package kernels

import _ "embed" // the prelude

//go:embed prelude.cu
var prelude string

// Complete returns the prelude and body, the kernels of another package, ready to compile.
func Complete(body string) string { return prelude + body }
