package plan_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
)

// smoke is the matrix of the suite smoke.
func smoke() *plan.Matrix {
	return plantest.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{"suite": {"smoke"}, "sku": {"local"}}})
}

func TestTrafficSize(t *testing.T) {
	traffic := [][]int64{{0, 16, 4}, {8, 0, 0}, {100, 0, 0}}
	sent, received := collective.Busiest(traffic)
	require.Equal(t, []int64{100, 108}, []int64{sent, received})
	require.EqualValues(t, 108, collective.TrafficSize(traffic), "what rank 0 receives")
}

func TestFileRoundTrip(t *testing.T) {
	m := smoke()
	path := filepath.Join(t.TempDir(), "matrix_full.json")
	require.NoError(t, m.WriteFile(path))
	got, err := plan.ReadFile(path, "v1")
	require.NoError(t, err)
	require.Equal(t, m, got)

	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1, "a temporary file was left")
}

func TestReadRefuses(t *testing.T) {
	var buf bytes.Buffer
	require.NoError(t, smoke().Write(&buf))
	good := buf.String()
	_, first, _ := strings.Cut(good, "\"requested_other\":[\n")
	first, _, _ = strings.Cut(first, "\n")
	for _, tc := range []struct {
		name, old, new, want string
	}{
		{"another program version", `"version":"v1"`, `"version":"v2"`, "made by cxgen v2, this program is v1; use one version for all jobs of a run"},
		{"another format", `"format":1`, `"format":9`, "format 9, this program reads 1"},
		{"another matrix version", `{"version":1,`, `{"version":2,`, "version 2, want 1"},
		{"an unknown field", `{"version":1,`, `{"version":1,"x":0,`, `unknown member "x"`},
		{"a case without ranks", `"world":2,`, ``, `requested_other[0].case: missing member "world"`},
		{"a case without nodes", `"nodes":1,`, `"nodes":0,`, "has 2 ranks on 0 nodes with 2 each"},
		{"a case without ranks on its nodes", `"ranks_per_node":2,`, ``, `requested_other[0].case: missing member "ranks_per_node"`},
		{"a member twice", `"world":2,`, `"world":2,"world":2,`, `duplicate member "world"`},
		{"the block of another family", `"family":"ep"`, `"family":"collective"`, `unknown member "ep"`},
		{"an unknown family", `"family":"ep"`, `"family":"x"`, `family "x" is not one of collective, copy, ep`},
		{"a truncated file", "\n]", "", "matrix: "},
		{"a dangling case id", `"case_ids":["local-host-all-reduce-float-sum-w2-warm"`, `"case_ids":["nope"`, "cell local-host-collective-n1 lists case nope"},
		{"a cell twice", `"id":"local-host-bf16-n1"`, `"id":"local-host-collective-n1"`, "duplicate cell local-host-collective-n1"},
		{"a case without a cell", `"case_ids":["local-host-all-reduce-float-sum-w2-warm",`, `"case_ids":[`, "is in no cell"},
		{"a case twice", first, first + "\n," + first, "duplicate case"},
		{"a case of another id", `"case_id":"local-host-all-reduce-float-sum-w2-warm"`, `"case_id":"x"`, "case x should be named local-host-all-reduce-float-sum-w2-warm"},
		{"a case in the list of others", `"workload":"tiny"`, `"workload":"deepseek-v3"`, "should be named"},
		{"a case in the wrong list", "\"requested_cases\":[\n],\n\"requested_other\":[", "\"requested_other\":[\n],\n\"requested_cases\":[", "is in the wrong list"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := strings.Replace(good, tc.old, tc.new, 1)
			if tc.name == "a truncated file" {
				bad = good[:len(good)/2]
			}
			require.NotEqual(t, good, bad)
			_, err := plan.Parse([]byte(bad), "v1", false)
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err := plan.Parse([]byte(good), "v1", false)
	require.NoError(t, err)
}

// Who reads results reads the matrix of any version: unknown members are dropped, and
// older ids stay. What does not fit together is refused all the same, and whoever runs a
// matrix refuses it.
func TestArchivedMatrices(t *testing.T) {
	var buf bytes.Buffer
	require.NoError(t, smoke().Write(&buf))
	const id = "local-host-all-reduce-float-sum-w2-warm"
	other := strings.NewReplacer(`"version":"v1"`, `"version":"v9","colour":"red"`, id, "older-name", `"world":2,`, `"world":2,"colour":"red",`).Replace(buf.String())
	_, err := plan.Parse([]byte(other), "v1", false)
	require.ErrorContains(t, err, "cxgen v9")
	m, err := plan.Parse([]byte(other), "v1", true)
	require.NoError(t, err)
	require.True(t, m.Archived)
	want := smoke()
	require.Len(t, m.RequestedOther, len(want.RequestedOther))
	require.Contains(t, m.Include[0].CaseIDs, "older-name")

	for old, says := range map[string]string{
		`"case_ids":["older-name",`: "is in no cell",
		`{"version":1,`:             "version 2, want 1",
		`"format":1`:                "format 9",
	} {
		bad := strings.Replace(other, old, map[string]string{
			`"case_ids":["older-name",`: `"case_ids":[`, `{"version":1,`: `{"version":2,`, `"format":1`: `"format":9`,
		}[old], 1)
		require.NotEqual(t, other, bad)
		_, err := plan.Parse([]byte(bad), "v1", true)
		require.ErrorContains(t, err, says)
	}

	// One of this version is held to everything.
	_, err = plan.Parse([]byte(strings.Replace(buf.String(), `"world":2,`, "", 1)), "v1", true)
	require.ErrorContains(t, err, `missing member "world"`)
}

// FuzzRead reads any bytes as a matrix: nothing panics, and a matrix that is read
// can be written and reads as the same again.
func FuzzRead(f *testing.F) {
	m := smoke()
	var text bytes.Buffer
	require.NoError(f, m.Write(&text))
	f.Add(text.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := plan.Parse(data, "v1", false)
		if err != nil {
			return
		}
		var text bytes.Buffer
		require.NoError(t, m.Write(&text))
		again, err := plan.Parse(text.Bytes(), "v1", false)
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

func TestAnUnknownCell(t *testing.T) {
	_, err := smoke().Cell("local-host-n9")
	require.EqualError(t, err, `the matrix has no cell "local-host-n9"`)
}
