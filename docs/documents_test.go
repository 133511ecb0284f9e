package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/internal/schema"
	"github.com/collectivex/collectivex/pkg/result"
)

// documents.md has a line for every reason, record type and schema.
func TestTheDocumentContractIsTrue(t *testing.T) {
	data, err := os.ReadFile("documents.md")
	require.NoError(t, err)
	page := string(data)

	var codes []string
	_, table, _ := strings.Cut(page, "| Code |")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		codes = append(codes, m[1])
	}
	var want []string
	for _, r := range result.Codes() {
		want = append(want, string(r))
	}
	require.ElementsMatch(t, want, codes)
	files, err := schema.Files()
	require.NoError(t, err)
	for _, f := range files {
		require.Contains(t, page, "`"+f.Name+"`")
	}
}

// The commands of documents.md find the figures of the documents.
func TestTheDocumentExamplesRun(t *testing.T) {
	need.Tool(t, "jq")
	page, err := os.ReadFile("documents.md")
	require.NoError(t, err)
	dir := t.TempDir()
	var lines []byte
	for _, d := range []result.Document{
		resulttest.EP(resulttest.EPCase(), resulttest.Attempt()),
		resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt()),
		resulttest.Fail(resulttest.New(resulttest.CollectiveCase(), resulttest.Attempt()), "timeout", "skipped"),
	} {
		line, err := result.EncodeDocument(d)
		require.NoError(t, err)
		lines = append(lines, line...)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.ndjson"), lines, 0o644))
	var got []string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		cmd := exec.Command("sh", "-c", m[1])
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", m[1], out)
		got = append(got, strings.Split(strings.TrimSpace(string(out)), "\n")...)
	}
	const ep, all = "local-host-deepseek-v3-normal-decode-ep2-uniform-bf16", "local-host-all-reduce-float-sum-w2-warm"
	require.Len(t, got, 3+3+3+1)
	require.Equal(t, ep+"\tsuccess\t", got[0]+strings.Repeat("\t", 2-strings.Count(got[0], "\t")))
	require.Equal(t, all+"\tfailed\ttimeout; skipped", got[2])
	require.Equal(t, ep+"\t4\t21", got[5])
	require.True(t, strings.HasPrefix(got[8], all+"\t1048576\t"), got[8])
	line, _, _ := strings.Cut(string(lines), "\n")
	digest := strings.TrimSuffix(line[strings.LastIndex(line, `"sha256:`)+len(`"sha256:`):], `"}`)
	require.Equal(t, digest+"  -", got[9])
}
