package workload

import _ "embed"

// HashSource is hash.h, for compilers at run time.
//
//go:embed hash.h
var HashSource string

//go:embed pattern.h
var pattern string

// PatternSource is hash.h and pattern.h, for compilers at run time.
var PatternSource = HashSource + pattern
