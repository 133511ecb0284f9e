package workload

import _ "embed"

// PatternSource is pattern.h, for compilers at run time.
//
//go:embed pattern.h
var PatternSource string
