package workload

import _ "embed"

// HashSource is the text of hash.h, for compilation at run time.
//
//go:embed hash.h
var HashSource string

//go:embed pattern.h
var pattern string

// PatternSource is the text of hash.h and pattern.h, for compilation at run time.
var PatternSource = HashSource + pattern
