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
// program's name: "v0.3.0 (commit 7c9e6679742a, source 3f9a1c2b4d5e6f70)". See build.
func Build() string {
	info, _ := debug.ReadBuildInfo()
	return build(info)
}

// build returns what Build does for the information that the go command stamped, or nil. The release
// is a tag, also of go install PACKAGE@TAG, or a pseudo-version, which ends in the first 12 digits of
// the commit, with "+dirty" if files differed from it; "devel" without a stamp, as by go run. The
// commit of a tag is known if the program was built in a checkout.
func build(info *debug.BuildInfo) string {
	if info == nil || !strings.HasPrefix(info.Main.Version, "v") {
		return fmt.Sprintf("devel (source %s)", Version)
	}
	commit := ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= shortCommit && !strings.Contains(info.Main.Version, s.Value[:shortCommit]) {
			commit = "commit " + s.Value[:shortCommit] + ", "
		}
	}
	return fmt.Sprintf("%s (%ssource %s)", info.Main.Version, commit, Version)
}

// shortCommit is the number of digits of a commit in a pseudo-version.
const shortCommit = 12
