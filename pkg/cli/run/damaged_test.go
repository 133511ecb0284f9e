package run

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// A document that was damaged after it was written passes no gate, whether it has a
// digest, one made again, or is from before there were any: aggregate and summarize --gate name the
// same file and the same reason, and nothing but the file differs from the sound
// run, which passes.
func TestDamagedDocumentsPassNoGate(t *testing.T) {
	need.Full(t)
	c, e := resulttest.CollectiveCase(), resulttest.EPCase()
	for _, tc := range []struct{ name, family, old, new, reason string }{
		{"a figure", "ep", `"p50":11,`, `"p50":10.5,`, ""}, // a digest alone finds it
		{"no rows", "collective", `"rows":[{`, `"rows":[],"x":[{`, "measurement: unknown member"},
		{"a check is false", "collective", `"passed":true`, `"passed":false`, "complete true, passed false"},
		{"another comparison key", "ep", `"comparison_key":"`, `"comparison_key":"0`, "comparison_key"},
		{"a row is incomplete", "ep", `"complete":true`, `"complete":false`, "complete false, passed true"},
		{"a member is missing", "ep", `"global_tokens":2,`, ``, `measurement.rows[0]: missing member "global_tokens"`},
		{"a number as text", "ep", `"global_tokens":2,`, `"global_tokens":"2",`, "measurement.rows[0].global_tokens: want an integer"},
		{"a member twice", "ep", `"global_tokens":2,`, `"global_tokens":2,"global_tokens":2,`, `duplicate member "global_tokens"`},
		{"an unknown value", "collective", `"placement":"in_place"`, `"placement":"elsewhere"`, "is not one of out_of_place, in_place"},
		{"another size", "collective", `"requested_bytes":1024`, `"requested_bytes":1000`, "requested_bytes 1000"},
		{"no ranks", "collective", `"world":2`, `"world":0`, "identity.case_factors.case is not the case"},
		{"no nodes", "ep", `"family":"ep","suite":"smoke","backend":"host","world":2,"nodes":1`, `"family":"ep","suite":"smoke","backend":"host","world":2,"nodes":0`, "0 nodes"},
		{"another world", "collective", `"world_size":2`, `"world_size":20000`, "world_size is 20000"},
		{"a lower maximum", "collective", `"max_us":2.2`, `"max_us":0.2`, "do not lie between min_us"},
		{"a time below 0", "collective", `"p50":2.0008,`, `"p50":-5,`, "p50"},
		{"a higher bus bandwidth", "collective", `"busbw_gbps":0.003`, `"busbw_gbps":0.03`, "busbw_gbps"},
		{"a large error that passed", "ep", `"max_relative_error":0.001`, `"max_relative_error":9.5`, "max_relative_error"},
		{"unsupported, though runnable", "ep", `"status":"success","reasons":[]`, `"status":"unsupported","reasons":["refused"]`, "outcome.status is unsupported"},
		{"a histogram of other samples", "collective", `"counts":[3]`, `"counts":[2]`, "2 of 3 samples"},
		{"null", "ep", `"fanout_histogram":[0,2]`, `"fanout_histogram":null`, "fanout_histogram: null"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, seal := range []string{"kept", "none", "made again"} {
				if seal != "kept" && tc.reason == "" {
					continue
				}
				dir := t.TempDir()
				m := plan.Matrix{
					Version:        plan.MatrixVersion,
					Generator:      plan.Generator{Program: "cxgen", Version: cli.Version, Format: plan.Format},
					RequestedCases: []plan.Requested{{SKU: "local", Disposition: plan.Runnable, Case: e}},
					RequestedOther: []plan.Requested{{SKU: "local", Disposition: plan.Runnable, Case: c}},
					Include:        []plan.Cell{{ID: "a", CaseIDs: []string{e.CaseID, c.CaseID}}},
				}
				matrix := filepath.Join(dir, "matrix")
				require.NoError(t, m.WriteFile(matrix))
				written, err := plan.ReadFile(matrix, cli.Version)
				require.NoError(t, err)
				a := resulttest.Attempt()
				a.MatrixSHA256 = written.SHA256
				files := map[string]string{}
				for i, d := range []result.Document{resulttest.EP(e, a), resulttest.Collective(c, a)} {
					file, err := result.Write(dir, d, i, func([]byte) error { return nil })
					require.NoError(t, err)
					files[[]string{"ep", "collective"}[i]] = file
				}
				gates := func() (code int, left string) {
					code, _, aggregate := cxrun(t, nil, "aggregate", "--in", dir, "--matrix", matrix, "-o", filepath.Join(dir, "run.ndjson"))
					same, _, summarize := cxrun(t, nil, "summarize", "--in", dir, "--matrix", matrix, "--gate")
					require.Equal(t, code, same)
					line := func(text string) string {
						if !strings.HasPrefix(text, "left out: ") {
							return ""
						}
						return text[:strings.IndexByte(text, '\n')]
					}
					require.Equal(t, line(aggregate), line(summarize))
					return code, line(aggregate)
				}
				damage := func(old, new string) {
					data := readFile(t, files[tc.family])
					require.Contains(t, string(data), old)
					require.NoError(t, os.WriteFile(files[tc.family], []byte(strings.Replace(string(data), old, new, 1)), 0o644))
				}
				if seal == "none" { // as the documents were before they had digests
					data := readFile(t, files[tc.family])
					before, _, found := strings.Cut(string(data), `,"digest":"`)
					require.True(t, found)
					require.NoError(t, os.WriteFile(files[tc.family], []byte(before+"}\n"), 0o644))
				}
				code, left := gates()
				require.Equal(t, cli.ExitOK, code, left)
				damage(tc.old, tc.new)
				if seal == "made again" {
					data := readFile(t, files[tc.family])
					content, _, found := strings.Cut(string(data), `,"digest":"`)
					require.True(t, found)
					require.NoError(t, os.WriteFile(files[tc.family], fmt.Appendf(nil, "%s,\"digest\":\"sha256:%x\"}\n", content, sha256.Sum256([]byte(content))), 0o644))
				}
				code, left = gates()
				require.Equal(t, cli.ExitFailed, code)
				require.Contains(t, left, filepath.Base(files[tc.family]))
				require.Contains(t, left, tc.reason)
				require.Equal(t, seal == "kept", strings.Contains(left, "digest does not match"))
			}
		})
	}
}
