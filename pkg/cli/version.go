package cli

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// Version identifies the source that the program was built from. The matrix
// carries it, and a cell refuses a matrix of another one. Both programs set it at
// their start, from package collectivex; in tests of packages it is "dev".
var Version = "dev"

// Build says what the program was built from, as --version and documents give it
// behind the program's name: "v0.3.0 (source 3f9a1c2b4d5e6f70)". The first word is
// what the go command stamped: a tag; or a pseudo-version, which ends in the first
// 12 digits of the commit; either with "+dirty" where files differed from it. It is
// "devel" where nothing was stamped, as by go run. The source is Version.
func Build() string {
	release := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		release = info.Main.Version
	}
	return fmt.Sprintf("%s (source %s)", release, Version)
}
