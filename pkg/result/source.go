package result

import "embed"

// Source is the files whose doc comments describe the fields of every document. The
// JSON Schemas take their descriptions from them.
//
//go:embed document.go devices.go program.go repeatability.go sample.go
var Source embed.FS
