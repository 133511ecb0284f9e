package plan

import "embed"

// Source is the files whose doc comments describe the fields of cases and
// matrices. The JSON Schemas take their descriptions from them.
//
//go:embed case.go
var Source embed.FS
