// Package matrix holds the definitions that ship with both programs: suites,
// platforms, backends, capabilities, workloads, sampling profiles and traffic. Package catalog reads
// them; a directory of the same layout can stand in for them.
package matrix

import "embed"

// FS is the embedded definitions.
//
//go:embed *.yaml platforms/*.yaml capabilities/*.yaml suites/*.yaml traffic/*.txt
var FS embed.FS
