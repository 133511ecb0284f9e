package result

import "embed"

// Source is the files whose doc comments describe the fields of documents. The
// JSON Schemas take their descriptions from them.
//
//go:embed document.go ep.go collective.go devices.go
var Source embed.FS
