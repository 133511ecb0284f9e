package result_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

func all([]byte) error { return nil }

func TestNewIsFailedUntilSaidOtherwise(t *testing.T) {
	for _, c := range []plan.Case{resulttest.EPCase(), resulttest.CollectiveCase()} {
		d := resulttest.New(c, resulttest.Attempt())
		require.ErrorContains(t, result.Validate(d), "failed without a reason")
		resulttest.Fail(d, result.ReasonTimeout.With("case budget of %d s", 60).String())
		require.NoError(t, result.Validate(d))
		data, err := result.Encode(d)
		require.NoError(t, err)
		require.Contains(t, string(data), `"rows":[]`)
		require.Contains(t, string(data), `"reasons":["timeout: case budget of 60 s"]`)
		require.Contains(t, string(data), `"vendor":"host"`)
		_, topology, _ := strings.Cut(string(data), `"topology":{`)
		topology, _, _ = strings.Cut(topology, "}")
		require.NotContains(t, topology, "gpus_per_node")
		require.NotContains(t, topology, "scale_up_domain\":")
		require.NotContains(t, string(data), "collective_library")
	}
}

func TestEPCaseFactorsAreTwenty(t *testing.T) {
	data, err := json.Marshal(ep.FactorsOf(resulttest.EPCase(), []int{1, 2}))
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(data, &m))
	require.Len(t, m, 20)
	require.Equal(t, "1 2", m["ladder"])
	require.Nil(t, m["scale_out_transport"])
	require.Equal(t, plan.Ladder{1, 2, 4}, ep.FactorsOf(resulttest.EPCase(), nil).Ladder)
}

func TestValidateFindsWhatIsWrong(t *testing.T) {
	good := func() *ep.Document { return resulttest.EP(resulttest.EPCase(), resulttest.Attempt()) }
	coll := func() *collective.Document {
		return resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt())
	}
	require.NoError(t, result.Validate(good()))
	require.NoError(t, result.Validate(coll()))
	for _, tc := range []struct {
		name string
		doc  func() result.Document
		want string
	}{
		{"another version", func() result.Document { d := good(); d.Version = 2; return d }, "version is 2"},
		{"local time", func() result.Document { d := good(); d.GeneratedAt = "2026-01-02T03:04:05+02:00"; return d }, "not UTC"},
		{"an entry skew of no window", func() result.Document { d := coll(); d.EntrySkew = &result.EntrySkew{}; return d }, "entry_skew: 0 windows"},
		{"an entry skew whose median is above its maximum", func() result.Document {
			d := coll()
			d.EntrySkew = &result.EntrySkew{Windows: 1, P50: 2, Max: 1}
			return d
		}, "entry_skew: 1 windows with a median of 2 us and a maximum of 1 us"},
		{"another case id", func() result.Document { d := good(); d.Identity.CaseID = "x"; return d }, "as in the case"},
		{"id and factors disagree", func() result.Document {
			d := good()
			ep.Of(&d.Identity.Case).EPSize = 4
			d.SetLadder([]int{1, 2, 4}, nil, nil)
			return d
		}, "the fields of the case make"},
		{"factors are not the case", func() result.Document {
			d := good()
			f := ep.FactorsOf(d.Identity.Case, []int{1, 2, 4})
			f.Hidden = 1
			d.Identity.CaseFactors.Case = f
			return d
		}, "not the case with the measured ladder"},
		{"key of another environment", func() result.Document {
			d := good()
			d.Provenance.Environment = map[string]string{"NCCL_ALGO": "Tree"}
			return d
		}, "comparison_key"},
		{"success with a failed row", func() result.Document {
			d := good()
			d.Measurement.Rows[1].Correctness.Passed = false
			return d
		}, "T=2 is complete true, passed false"},
		{"success with a partial row", func() result.Document { d := good(); d.Measurement.Rows[0].Complete = false; return d }, "T=1 is complete false"},
		{"success with a row missing", func() result.Document {
			d := coll()
			d.Measurement.Rows = d.Measurement.Rows[1:]
			return d
		}, "outcome is success with"},
		{"success with a timing mode missing", func() result.Document {
			d := coll()
			d.Measurement.Rows[0].Pipelined = nil
			return d
		}, "has no pipelined"},
		{"a size that is neither measured nor dropped", func() result.Document {
			d := coll()
			last := len(d.Workload.SizesMeasured) - 1
			d.Workload.SizesMeasured = slices.Clone(d.Workload.SizesMeasured)[:last]
			d.Measurement.Rows = slices.DeleteFunc(d.Measurement.Rows, func(r collective.Row) bool { return r.Requested == collective.Of(&d.Identity.Case).Sizes[last] })
			return d
		}, "must be either in sizes_measured or in sizes_dropped"},
		{"success without rows", func() result.Document { d := coll(); d.Measurement.Rows = []collective.Row{}; return d }, "without rows"},
		{"null rows", func() result.Document { d := coll(); d.Measurement.Rows = nil; return d }, "rows is null"},
		{"success of differing traces", func() result.Document { d := good(); d.Workload.CrossRankConsistent = false; return d }, "cross_rank_consistent is false"},
		{"wrong origin", func() result.Document {
			d := good()
			d.Measurement.Rows[0].Components.PairPeriod = d.Measurement.Rows[0].Components.Roundtrip
			return d
		}, "components.pair_period: must be measured with origin chained-median"},
		{"a component is missing", func() result.Document {
			d := good()
			d.Measurement.Rows[2].Components.Dispatch = ep.Component{Availability: ep.Unavailable}
			return d
		}, "rows[T=4].components.dispatch is unavailable"},
		{"wire bytes of other copies", func() result.Document {
			d := good()
			d.Measurement.Rows[1].LogicalCopies.Wire = ep.WirePerAssignment
			return d
		}, "rows[T=2].wire_byte_provenance does not match 32 copies"},
		{"a routing whose counts say otherwise", func() result.Document {
			d := good()
			d.Measurement.Rows[1].RoutingStats.HotspotRatio = 3
			return d
		}, "rows[T=2].routing.hotspot_ratio is 3, want 1 from its counts"},
		{"copies that are not in the histogram", func() result.Document {
			d := good()
			d.Measurement.Rows[1].RoutingStats.RoutedCopies++
			return d
		}, "rows[T=2].routing: copies"},
		{"a recorded routing of another digest", func() result.Document {
			d := good()
			block := *ep.Of(&d.Identity.Case)
			block.RoutingSHA256 = strings.Repeat("0", 64)
			d.Identity.Case.Block = &block
			return d
		}, "identity.case: routing, routing_sha256 and routing_experts "},
		{"a row without the oracle's verdicts", func() result.Document {
			d := good()
			d.Measurement.Rows[1].Correctness.OracleFailed = nil
			return d
		}, "rows[T=2].correctness: oracle_passed or oracle_failed_checks is missing"},
		{"an oracle that passed with failed checks", func() result.Document {
			d := good()
			d.Measurement.Rows[1].Correctness.OracleFailed.Post = []string{"weights"}
			return d
		}, "rows[T=2].correctness.oracle_passed.post is true in spite of failed checks"},
		{"failed checks out of order", func() result.Document {
			d := good()
			c := &d.Measurement.Rows[1].Correctness
			c.OraclePassed.Pre, c.OracleFailed.Pre = false, []string{"weights", "counts"}
			return d
		}, "rows[T=2].correctness.oracle_failed_checks.pre are not names of checks, sorted"},
		{"a row that passed without its oracle", func() result.Document {
			d := good()
			d.Measurement.Rows[1].Correctness.OraclePassed.Pre = false
			return d
		}, "rows[T=2].correctness passed although its oracle did not"},
		{"a chain that passed with a wrong state", func() result.Document {
			d := good()
			d.Measurement.Rows[1].Correctness.PostChainPassed = false
			return d
		}, "rows[T=2].correctness.oracle_passed.chained is true, but post_chain_state_passed is false"},
		{"the record type of another case", func() result.Document { d := good(); d.RecordType = ep.RecordOther; return d }, "documents of the case have \"case-attempt\""},
		{"percentiles fall", func() result.Document {
			d := good()
			d.Measurement.Rows[0].RankSpread.Percentiles = result.PercentilesOf(2, 1, 1, 1)
			return d
		}, "do not ascend"},
		{"a maximum below the percentiles", func() result.Document {
			d := coll()
			t := d.Measurement.Rows[0].Pipelined
			t.Max = *t.Percentiles.P99 / 2
			return d
		}, "rows[8 bytes, out_of_place].pipelined: percentiles"},
		{"a minimum above the percentiles", func() result.Document {
			d := coll()
			t := d.Measurement.Rows[0].PerIteration
			t.Min = t.Max
			return d
		}, "do not lie between"},
		{"a histogram of other samples", func() result.Document {
			d := coll()
			d.Measurement.Rows[0].Pipelined.Histogram.Counts = []int{2}
			return d
		}, "histogram counts 2 of 3 samples"},
		{"a histogram with a negative count", func() result.Document {
			d := coll()
			d.Measurement.Rows[0].Pipelined.Histogram.Counts = []int{-1}
			return d
		}, "histogram counts -1 samples in a bin"},
		{"a histogram beside the percentiles", func() result.Document {
			d := coll()
			d.Measurement.Rows[0].Pipelined.Histogram.Width /= 2
			return d
		}, "but min_us is 2.0008 and max_us 2.20088"},
		{"a histogram of other samples of a component", func() result.Document {
			d := good()
			r := &d.Measurement.Rows[1]
			r.Histograms = map[string]result.Histogram{"dispatch": {Min: 12, Width: 6, Counts: []int{1}}}
			return d
		}, "rows[T=2].histograms.dispatch: histogram counts 1 of 32 samples"},
		{"a histogram of a component without samples", func() result.Document {
			d := good()
			d.Measurement.Rows[1].Histograms = map[string]result.Histogram{"stage": {Min: 12, Counts: []int{1}}}
			return d
		}, "rows[T=2].histograms.stage: the row has no samples"},
		{"passed without a check", func() result.Document { d := coll(); d.Measurement.Rows[0].Check.Checked = 0; return d }, "checked_elements 0"},
		{"passed with wrong elements", func() result.Document { d := coll(); d.Measurement.Rows[0].Check.Wrong = 3; return d }, "passed with wrong_elements 3"},
		{"a size nobody asked for", func() result.Document { d := coll(); d.Measurement.Rows[0].Bytes = 9; return d }, "not asked for"},
		{"free text as reason", func() result.Document { return resulttest.Fail(good(), "NCCL WARN socket 10.0.0.1") }, "closed list"},
		{"path as detail", func() result.Document { return resulttest.Fail(good(), "internal-error: open /home/u/x") }, "published form"},
		{"unknown status", func() result.Document { d := good(); d.Outcome.Status = "ok"; return d }, "unknown"},
		{"unknown vendor", func() result.Document { d := good(); d.Runtime.Vendor = ""; return d }, "vendor"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.ErrorContains(t, result.Validate(tc.doc()), tc.want)
		})
	}
}

func TestReasonDropsPrivateDetail(t *testing.T) {
	require.Equal(t, "rank-died: rank 1 signal 9", result.ReasonRankDied.With("rank %d signal %d", 1, 9).String())
	require.Equal(t, "library-error", result.ReasonLibrary.With("open %s", "/home/someone/libnccl.so").String())
	for _, r := range result.Codes() {
		require.NoError(t, result.Reason{Code: r}.Check())
	}
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	d := resulttest.EP(resulttest.EPCase(), resulttest.Attempt())
	d.Measurement.Rows[1].Receive.Mean = math.NaN()
	_, err := result.Write(dir, d, 3, all)
	require.ErrorContains(t, err, "measurement.rows[1].receive.mean is not a finite number")

	d.Measurement.Rows[1].Receive.Mean = 1
	secret := errors.New("a host name")
	_, err = result.Write(dir, d, 3, func([]byte) error { return secret })
	require.ErrorIs(t, err, secret)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	path, err := result.Write(dir, d, 3, all)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, d.Identity.CaseID+"_251634977754994-20260102T030405.006Z-c003.json"), path)
	_, err = result.Write(dir, d, 3, all)
	require.ErrorContains(t, err, "exists already")
	_, err = result.Write(filepath.Join(dir, "none"), d, 3, all)
	require.ErrorIs(t, err, os.ErrNotExist)
	left, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestIsDocumentName(t *testing.T) {
	for name, want := range map[string]bool{
		"case_1-c000.json": true, plan.FileName: false, "._case.json": false, "run.ndjson": false, "case.json.gz": false,
	} {
		require.Equal(t, want, result.IsDocumentName(name), name)
	}
}

func TestDecodeReturnsWhatWasWritten(t *testing.T) {
	for _, d := range []result.Document{
		resulttest.EP(resulttest.EPCase(), resulttest.Attempt()),
		resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt()),
		resulttest.Fail(resulttest.New(resulttest.CollectiveCase(), resulttest.Attempt()), "timeout"),
	} {
		data, err := result.Encode(d)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(data), "\n"))
		got, err := result.Decode(data)
		require.NoError(t, err)
		require.NoError(t, result.Validate(got))
		again, err := result.Encode(got)
		require.NoError(t, err)
		require.Equal(t, string(data), string(again))
	}
}

func TestDecodeNamesTheForeign(t *testing.T) {
	for _, data := range []string{`{}`, `{"version":2,"record_type":"case-attempt"}`, `{"version":1,"record_type":"kv"}`, `[]`} {
		_, err := result.Decode([]byte(data))
		require.ErrorIs(t, err, result.ErrForeign, data)
	}
	for _, data := range []string{``, `{"version":1,"record_type":"case-at`, `{"version":1,"record_type":"case-attempt"}{}`} {
		_, err := result.Decode([]byte(data))
		require.Error(t, err, data)
		require.NotErrorIs(t, err, result.ErrForeign, data)
	}
}

// Package families tries the key by changing each field of a case.
func TestComparisonKey(t *testing.T) {
	key := func(c plan.Case, env map[string]string) string {
		k, err := result.ComparisonKey(c, env)
		require.NoError(t, err)
		return k
	}
	base := key(resulttest.EPCase(), nil)
	require.NotEqual(t, base, key(resulttest.EPCase(), map[string]string{"NCCL_ALGO": "Ring"}), "environment")
	plain := resulttest.EPCase()
	ep.Of(&plain).Layout = "expert-major" // plans may leave it out
	require.Equal(t, base, key(plain, map[string]string{}))
	// Replicated experts stand where the trace of the largest rung puts them.
	balanced, longer := resulttest.EPCase(), resulttest.EPCase()
	ep.Of(&balanced).Routing, ep.Of(&longer).Routing, ep.Of(&longer).Ladder = "zipf-eplb", "zipf-eplb", plan.Ladder{1, 2, 4, 8}
	require.NotEqual(t, key(balanced, nil), key(longer, nil))
	fewer := balanced
	fewerBlock := *ep.Of(&balanced)
	fewer.Block, fewerBlock.Ladder = &fewerBlock, plan.Ladder{2, 4}
	require.Equal(t, key(balanced, nil), key(fewer, nil))
	_, err := result.ComparisonKey(plan.Case{Family: ep.Name}, nil)
	require.ErrorContains(t, err, "without its block")
}

// Documents of 6d8324a and before have one record type for all EP cases, and a key
// that leaves out which rung placed replicated experts.
func TestOlderDocumentsOfReplicatedExpertsAreValid(t *testing.T) {
	c := resulttest.EPCase()
	ep.Of(&c).Routing = "zipf-eplb"
	c.CaseID = c.ID()
	d := resulttest.EP(c, resulttest.Attempt())
	require.NoError(t, result.Validate(d))
	without := c
	block := *ep.Of(&c)
	without.Block, block.Ladder = &block, nil
	key, err := result.ComparisonKey(without, d.Provenance.Environment)
	require.NoError(t, err)
	read := func() error {
		data, err := result.Encode(d)
		require.NoError(t, err)
		_, err = result.NewInspector(func(string) error { return nil }).Inspect(data)
		return err
	}
	d.ComparisonKey = key
	require.ErrorContains(t, read(), "comparison_key")
	d.RecordType = result.RecordUpstream
	require.NoError(t, read())
	require.ErrorContains(t, result.Validate(d), "record_type", "none is written so any more")
}

func TestNewSaysWhoAndWhen(t *testing.T) {
	a := resulttest.Attempt()
	a.At = time.Date(2026, 5, 6, 9, 0, 0, 0, time.FixedZone("", 3600))
	a.RunID, a.SourceSHA = "", ""
	h := resulttest.New(resulttest.EPCase(), a).Head()
	require.Equal(t, "2026-05-06T08:00:00.000Z", h.GeneratedAt)
	require.Nil(t, h.Identity.AllocationFactors.RunID)
	require.Nil(t, h.Provenance.SourceSHA)
	require.Equal(t, "1", *h.Identity.AllocationFactors.RunAttempt)
}

// A document of swaps of blocks holds each point of its case's grid, measured or excluded, and its rates follow from its
// times.
func TestFieldsOfSwapsAgree(t *testing.T) {
	for want, damage := range map[string]func(*copies.Document){
		"latency.payload_gbps_at_latency_percentile.p99": func(d *copies.Document) { *d.Measurement.Rows[0].Latency.GBps.P99 *= 2 },
		"percentiles_us do not ascend":                   func(d *copies.Document) { *d.Measurement.Rows[0].Latency.Micros.P99 /= 2 },
		"latency is missing":                             func(d *copies.Document) { d.Measurement.Rows[0].Latency = nil },
		"latency.sample_count is 19 of 20":               func(d *copies.Document) { d.Measurement.Rows[0].Latency.SampleCount-- },
		"or is a swap with one":                          func(d *copies.Document) { d.Measurement.Rows[0].Host = &copies.Clock{} },
		"was not asked for":                              func(d *copies.Document) { d.Measurement.Rows[0].BlockBytes++ },
		"with 4 rows of 5":                               func(d *copies.Document) { d.Measurement.Rows = d.Measurement.Rows[:4] },
		"measurement.excluded[] are []":                  func(d *copies.Document) { d.Measurement.Excluded = nil },
	} {
		d := resulttest.Copy(plantest.Copy("ce", "swap_blocks_h2d"), resulttest.Attempt())
		require.NoError(t, result.Validate(d))
		damage(d)
		require.ErrorContains(t, result.Validate(d), want)
	}
}

// A document of copies holds what its case asks for, and its rates follow from its times. Two
// devices in both directions have a rate for each.
func TestFieldsOfCopiesAgree(t *testing.T) {
	for want, damage := range map[string]func(*copies.Document){
		"gbps is":                    func(d *copies.Document) { d.Measurement.Rows[0].Device.GBps *= 2 },
		"was not asked for":          func(d *copies.Document) { d.Measurement.Rows[0].Pieces++ },
		"appears twice":              func(d *copies.Document) { d.Measurement.Rows[1] = d.Measurement.Rows[0] },
		"no time by the host":        func(d *copies.Document) { d.Measurement.Rows[0].Host = nil },
		"with 1 rows of 2":           func(d *copies.Document) { d.Measurement.Rows = d.Measurement.Rows[:1] },
		"opposite_gbps is 0 in test": func(d *copies.Document) { d.Measurement.Rows[0].Host.OppositeGBps = 0 },
		"overlap is 0.5 and gbps":    func(d *copies.Document) { d.Measurement.Rows[0].Both.Overlap = 0.5 },
		"both is present: false":     func(d *copies.Document) { d.Measurement.Rows[0].Both = nil },
		"but row 4096 bytes":         func(d *copies.Document) { d.Measurement.Rows[0].Verify.Passed = false },
		"does not match the timing":  func(d *copies.Document) { d.Measurement.Sampling.Copies++ },
	} {
		d := resulttest.Copy(plantest.Copy("ce", "device_to_device_bidirectional_memcpy_read_ce"), resulttest.Attempt())
		require.NoError(t, result.Validate(d))
		damage(d)
		require.ErrorContains(t, result.Validate(d), want)
	}
}
