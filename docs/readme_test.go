package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/githubtest"
	"github.com/collectivex/collectivex/internal/need"
)

// goShim is the go command of TestReadme. It runs the programs in the directory of the test,
// where they write, and builds them in that of the sources, where the build cache knows them.
// It leaves out `go test ./...`, of which this test is a part.
const goShim = `#!/bin/bash
set -e
case "$1 $2" in
"run ./cmd/"*)
	"$REAL_GO" build -C "$SOURCES" -o "$PROGRAMS/" "$2"
	program=$PROGRAMS/${2##*/}
	shift 2
	exec "$program" "$@" ;;
"test ./...") [ $# = 2 ] ;;
"build -o") exec "$REAL_GO" build -C "$SOURCES" -o "$PWD/$3" "${@:4}" ;;
*) echo "go $*: not a command of README.md" >&2; exit 1 ;;
esac
`

// figure is a line of an output that differs from run to run.
var figure = regexp.MustCompile(`…|(^|\s)\[?\d`)

// Every command block of README.md runs, one after the other in one directory, without an
// error. GitHub is a stand-in. Headings of the output that README.md shows are those of today.
func TestReadme(t *testing.T) {
	need.Full(t)
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	script := "set -ex\n"
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(blocks), 5)
	for _, b := range blocks {
		script += b[1]
	}
	github := githubtest.New(t)
	script = strings.NewReplacer("OWNER/NAME", githubtest.Repo, "@COMMIT", "@"+strings.Repeat("5", 40)).Replace(script)

	goCommand, err := exec.LookPath("go")
	require.NoError(t, err)
	dir, bin := t.TempDir(), t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "matrix"), os.DirFS(filepath.Join(root, "matrix"))))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte(goShim), 0o755))
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(plain(os.Environ()),
		"PATH="+bin+":"+os.Getenv("PATH"), "REAL_GO="+goCommand, "SOURCES="+root, "PROGRAMS="+t.TempDir(),
		"GITHUB_API_URL="+github.URL, "GH_ENTERPRISE_TOKEN="+githubtest.Token,
	)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	shown := regexp.MustCompile("(?ms)^```text\n(.*?)^```$").FindStringSubmatch(string(page))
	require.NotNil(t, shown, "README.md shows what the sweep prints")
	for line := range strings.Lines(shown[1]) {
		if !figure.MatchString(line) {
			require.Contains(t, words(string(out)), words(line))
		}
	}
	for _, file := range []string{"results", "run.ndjson", "report.html", ".github/workflows/collectivex-sweep.yml"} {
		_, err := os.Stat(filepath.Join(dir, file))
		require.NoError(t, err)
	}
}

// words separates the words of a text by one space each.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }
