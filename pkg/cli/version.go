package cli

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// Version identifies the source of the program. The matrix has it, and a cell refuses the
// matrix of another version. Both programs set it at their start, from package collectivex;
// in tests of packages it is "dev".
var Version = "dev"

// Build returns the release and Version, as --version and documents show them after the
// program's name: "v0.3.0 (source 3f9a1c2b4d5e6f70)". The release is what the go command
// stamped: a tag, or a pseudo-version, which ends in the first 12 digits of the commit, with
// "+dirty" if files differed from it; "devel" without a stamp, as by go run.
func Build() string {
	release := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		release = info.Main.Version
	}
	return fmt.Sprintf("%s (source %s)", release, Version)
}
