package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/golden"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/result"
)

// What earlier versions wrote folds to the same bytes, from files and from NDJSON,
// and is in the summary. Package result tests the documents themselves.
func TestOlderDocumentsAreRead(t *testing.T) {
	need.Full(t)
	samples, err := filepath.Glob("../../../testdata/documents/*.ndjson")
	require.NoError(t, err)
	require.NotEmpty(t, samples)
	for _, sample := range samples {
		t.Run(filepath.Base(sample), func(t *testing.T) {
			written := readFile(t, sample)
			dir := t.TempDir()
			statuses := map[string]string{}
			for line := range strings.Lines(string(written)) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.json", len(statuses))), []byte(line), 0o644))
				d, err := result.Decode([]byte(line))
				require.NoError(t, err)
				statuses[d.Head().Identity.CaseID] = d.Head().Outcome.Status
			}

			fromFiles, fromNDJSON := filepath.Join(t.TempDir(), "files.ndjson"), filepath.Join(t.TempDir(), "again.ndjson")
			for in, out := range map[string]string{dir: fromFiles, sample: fromNDJSON} {
				_, stdout, _ := cxrun(t, nil, "aggregate", "--in", in, "-o", out)
				wording.Has(t, stdout, "0 duplicates … 0 files")
				folded := readFile(t, out)
				require.Equal(t, string(written), string(folded), in)
			}

			stdout, stderr := ran(t, cli.ExitOK, nil, "summarize", "--in", sample, "--format", "json")
			require.Empty(t, stderr)
			for id, status := range statuses {
				require.Contains(t, stdout, `"case_id":"`+id+`"`)
				if status != result.Success {
					require.Contains(t, stdout, `"case_id":"`+id+`","status":"`+status+`"`)
				}
			}
		})
	}
}

// What 83f25c2 made of its own documents, one case of each kind of every family, is made of them
// today, byte for byte, but for fits that are 10 % off a size, which it published up to 15 %. A changed figure or name breaks what people built on exports; rewrite the
// files only for a change that says so.
func TestOlderDocumentsReadAsEver(t *testing.T) {
	documents := "../../../testdata/documents/83f25c2"
	for _, form := range []string{"text", "json"} {
		stdout, _ := ran(t, cli.ExitOK, nil, "summarize", "--in", documents+".ndjson", "--format", form)
		golden.Equal(t, documents+".summary."+form, stdout)
	}
	for _, extension := range []string{".csv", ".prom"} {
		out := filepath.Join(t.TempDir(), "of"+extension)
		ran(t, cli.ExitOK, nil, "export", "--in", documents+".ndjson", "-o", out)
		made := readFile(t, out)
		golden.Equal(t, documents+extension, string(made))
	}
}

// aggregate and summarize find what an older run did not answer, by the matrix of its
// time; shard does not run it.
func TestOlderMatricesAreRead(t *testing.T) {
	written := readFile(t, "../../../testdata/documents/6d8324a.matrix.json")
	matrix := filepath.Join(t.TempDir(), "matrix_full.json")
	// Versions were called dev then, as in tests they are now.
	older := strings.Replace(string(written), `"version":"dev"`, `"version":"6d8324a"`, 1)
	require.NotEqual(t, string(written), older)
	require.NoError(t, os.WriteFile(matrix, []byte(older), 0o644))

	in := []string{"--in", "../../../testdata/documents/6d8324a.ndjson", "--matrix", matrix}
	stdout, stderr := ran(t, cli.ExitFailed, nil, append([]string{"aggregate", "-o", filepath.Join(t.TempDir(), "run.ndjson")}, in...)...)
	wording.Has(t, stdout, "6 documents … 6 cases … 0 duplicates … 0 files")
	require.Contains(t, stderr, "no document: local-host-p2p-float-w4-warm\n")
	require.Contains(t, stderr, "not requested: local-cx-fake-nvidia-gpu-nccl-all-reduce-float-sum-w2-shifted\n")
	stdout, _ = ran(t, cli.ExitOK, nil, append([]string{"summarize", "--format", "json"}, in...)...)
	require.Contains(t, stdout, `"missing":[{"cell":"local-host-`)

	ran(t, cli.ExitOK, nil, append([]string{"report", "-o", filepath.Join(t.TempDir(), "report.html")}, in...)...)

	_, stderr = ran(t, cli.ExitUsage, nil, "shard", "--matrix", matrix, "--id", "local-host-bf16-n1", "--results", t.TempDir())
	wording.Has(t, stderr, "6d8324a … dev")
}
