package plan

import _ "embed" // for Source

// Source is the file whose doc comments describe the fields of cases and
// matrices. The JSON Schemas take their descriptions from it.
//
//go:embed case.go
var Source string
