package gen_test

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/golden"
	"github.com/collectivex/collectivex/pkg/cli"
)

// What the program's own version decides, and the sampling's number of checks, which 83f25c2 did
// not have.
var ofItsVersion = regexp.MustCompile(`"version":"[^"]*"|,"checks":\d+`)

// moreRequired begins what cells of three platforms require today. They needed storage.stage then, too,
// and did not say so.
const moreRequired = `"requires":["storage.stage",`

// Every suite is planned byte for byte as 83f25c2 planned it: the golden file is of that commit. A
// changed line means that cases have other ids, keys or fields, so that new documents can no longer
// be compared with those in archives; rewrite it only for a change that says so.
func TestSuitesArePlannedAsEver(t *testing.T) {
	suites, err := filepath.Glob("../../../matrix/suites/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, suites)
	var sums strings.Builder
	for _, file := range suites {
		suite := strings.TrimSuffix(filepath.Base(file), ".yaml")
		matrix, _ := ran(t, cli.ExitOK, "matrix", "--suite", suite, "--output", "-")
		planned := strings.ReplaceAll(ofItsVersion.ReplaceAllString(matrix, ""), moreRequired, `"requires":[`)
		fmt.Fprintf(&sums, "%x  %d lines  %s\n", sha256.Sum256([]byte(planned)), strings.Count(planned, "\n"), suite)
	}
	golden.Equal(t, "testdata/planned.txt", sums.String())
}
