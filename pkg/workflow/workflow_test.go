package workflow_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/golden"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/workflow"
)

const (
	commit = "0123456789abcdef0123456789abcdef01234567"
	digest = commit + "0123456789abcdef01234567"
)

func emit(t *testing.T, o workflow.Options) []byte {
	t.Helper()
	cat := plantest.Shipped()
	text, err := workflow.Emit(cat, o)
	require.NoError(t, err)
	return text
}

// forms are the workflow as it is emitted for CollectiveX's own repository, for
// one that takes CollectiveX from elsewhere or from a release, for one with definitions besides, and with
// scheduled runs.
func forms(t *testing.T) map[string][]byte {
	return map[string][]byte{
		"own":     emit(t, workflow.Options{}),
		"nights":  emit(t, workflow.Options{Cron: "0 2 * * *", Baseline: 10}),
		"another": emit(t, workflow.Options{Source: workflow.Source{Repository: "collectivex/collectivex", SHA: commit}}),
		"release": emit(t, workflow.Options{Release: workflow.Release{Version: "v1.2.3", SHA256: digest}, Definitions: "fleet/matrix"}),
		"defined": emit(t, workflow.Options{Source: workflow.Source{Repository: "collectivex/collectivex", SHA: commit}, Definitions: "fleet/matrix"}),
	}
}

// TestGolden holds the workflow of this repository against the definitions.
func TestGolden(t *testing.T) {
	file := filepath.Join("..", "..", workflow.File)
	got := emit(t, workflow.Options{})
	golden.Equal(t, file, string(got))
}

// TestSource shows that another source changes nothing but what is checked out.
func TestSource(t *testing.T) {
	f := forms(t)
	require.Contains(t, string(f["defined"]), "          persist-credentials: false\n          path: own\n")
	require.Contains(t, string(f["defined"]), "CX_DEFINITIONS: own/fleet/matrix\n")
	pinned := "cxgen workflow --source collectivex/collectivex@" + commit
	require.Contains(t, string(f["defined"]), ": "+pinned+" --definitions fleet/matrix\n")
	require.Equal(t, string(f["another"]), strings.Replace(strings.Replace(string(f["own"]), "go run ./cmd/cxgen workflow", pinned, 1),
		"          persist-credentials: false\n",
		"          persist-credentials: false\n          repository: collectivex/collectivex\n          ref: "+commit+"\n", 1))
}

// lint returns what actionlint has to say; of the scripts too, if shellcheck is its path.
func lint(t *testing.T, text []byte, shellcheck string) []string {
	t.Helper()
	l, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{Shellcheck: shellcheck})
	require.NoError(t, err)
	faults, err := l.Lint("collectivex-sweep.yml", text, nil)
	require.NoError(t, err)
	out := []string{}
	for _, f := range faults {
		out = append(out, fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Message))
	}
	return out
}

var pin = regexp.MustCompile(`(actions/[a-z-]+)@[0-9a-f]{40} # v([0-9]+)\.[0-9.]+`)

// tagged has the major tag for each pinned commit, since actionlint knows the
// inputs of actions by that alone; for two actions the newest it knows.
func tagged(text []byte) []byte {
	known := map[string]string{"actions/checkout": "6", "actions/setup-go": "6"}
	return pin.ReplaceAllFunc(text, func(uses []byte) []byte {
		m := pin.FindSubmatch(uses)
		major := string(m[2])
		if k := known[string(m[1])]; k != "" {
			major = k
		}
		return fmt.Appendf(nil, "%s@v%s", m[1], major)
	})
}

// requireClean lints a workflow as it is and with tags for commits, and its scripts.
func requireClean(t *testing.T, text []byte) {
	t.Helper()
	require.NotRegexp(t, `uses: .*@[0-9a-f]{40}`, string(tagged(text)), "a pinned commit without its tag")
	t.Run("workflow", func(t *testing.T) {
		require.Empty(t, lint(t, text, ""))
		require.Empty(t, lint(t, tagged(text), ""))
	})
	t.Run("scripts", func(t *testing.T) {
		require.Empty(t, lint(t, text, need.Tool(t, "shellcheck")))
	})
}

// TestLint lints all forms.
func TestLint(t *testing.T) {
	for name, text := range forms(t) {
		t.Run(name, func(t *testing.T) { requireClean(t, text) })
	}
}

// TestLintOwn lints the workflows and scripts that are written by hand.
func TestLintOwn(t *testing.T) {
	for _, name := range []string{"ci.yml", "release.yml"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", ".github", "workflows", name))
			require.NoError(t, err)
			requireClean(t, text)
		})
	}
	t.Run(".ci", func(t *testing.T) {
		out, err := exec.Command(need.Tool(t, "shellcheck"), "../../.ci/run", "../../.ci/bare", "../../.ci/release").CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
}

// TestLintFinds shows that the linter sees what it is there for.
func TestLintFinds(t *testing.T) {
	text := string(emit(t, workflow.Options{}))
	for want, broken := range map[string]string{
		`property "count_9" is not defined`: strings.Replace(text, "needs.setup.outputs.count_0", "needs.setup.outputs.count_9", 1),
		`input "patern" is not defined`:     strings.Replace(string(tagged([]byte(text))), "pattern:", "patern:", 1),
		`SC2086`:                            strings.Replace(text, `--id "$CX_CELL"`, `--id $CX_CELL`, 1),
	} {
		t.Run(want, func(t *testing.T) {
			shellcheck := ""
			if strings.HasPrefix(want, "SC") {
				shellcheck = need.Tool(t, "shellcheck")
			}
			require.Contains(t, strings.Join(lint(t, []byte(broken), shellcheck), "\n"), want)
		})
	}
}

func TestParseSource(t *testing.T) {
	got, err := workflow.ParseSource("acme/collective.x@" + commit)
	require.NoError(t, err)
	require.Equal(t, workflow.Source{Repository: "acme/collective.x", SHA: commit}, got)
	for _, bad := range []string{
		"", "acme/x", "acme/..@" + commit, "acme/.@" + commit, "acme/x@main", "acme/x@v1.0.0", "acme/x@" + commit[:39], "acme/x@" + commit + "0", "x@" + commit,
		"acme/x y@" + commit, "acme/x\n@" + commit, "acme/${{ github.actor }}@" + commit, "a/b/c@" + commit,
		"acme/x@" + strings.ToUpper(commit), "acme/x@" + commit + "\n",
	} {
		_, err := workflow.ParseSource(bad)
		require.Error(t, err, "%q", bad)
	}
}

func TestParseRelease(t *testing.T) {
	got, err := workflow.ParseRelease("v1.20.3-rc.1@" + digest)
	require.NoError(t, err)
	require.Equal(t, workflow.Release{Version: "v1.20.3-rc.1", SHA256: digest}, got)
	for _, bad := range []string{"", "v1.2.3", "v1.2.3@", "v1.2@" + digest, "1.2.3@" + digest, "v1.2.3@" + commit, "v1.2.3-$(x)@" + digest, "v1.2.3/../..@" + digest, "v1.2.3@" + digest + "\n"} {
		_, err := workflow.ParseRelease(bad)
		require.Error(t, err, "%q", bad)
	}
	_, err = workflow.ParseRelease("v1.2.3")
	require.ErrorContains(t, err, "/v1.2.3/SHA256SUMS | sha256sum")
}

func TestDefinitions(t *testing.T) {
	cat := plantest.Shipped()
	for _, bad := range []string{"/matrix", "../matrix", "a/../b", "./matrix", "a//b", "a/", "a b", "$(x)", "a\nb", `a"b`, "-a", "${{ inputs.suite }}"} {
		_, err := workflow.Emit(cat, workflow.Options{Definitions: bad})
		require.Error(t, err, "%q", bad)
	}
}
