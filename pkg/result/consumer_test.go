package result_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// This file is a reader of a run's artifacts as the public dashboard is known
// to read them: lenient about what it does not know, and throwing where that
// reader throws, so that one bad document loses the whole run. It shares no
// type with package result.

type dashboard struct {
	series   map[string][]point // case id → points of its success
	coverage map[string]outcome // case id → how it ended
	kv       map[string][]kvPoint
}

// kvPoint is a row of a transfer as the dashboard draws it.
type kvPoint struct {
	kind, op, fabric       string
	isl, page, batch       float64
	descs, bytes, p50, gbs float64
}

type point struct {
	tokens    float64
	roundtrip float64 // p99
	rateGBps  float64 // payload of dispatch at p50, for each GPU
}

type outcome struct{ status, reason string }

type object = map[string]any

func readRun(matrix []byte, shards [][]byte) (d *dashboard, err error) {
	defer func() {
		if r := recover(); r != nil {
			d, err = nil, fmt.Errorf("the run is rejected: %v", r)
		}
	}()
	d = &dashboard{series: map[string][]point{}, coverage: map[string]outcome{}, kv: map[string][]kvPoint{}}
	var m object
	must(json.Unmarshal(matrix, &m))
	version := m["version"].(float64)
	check(version == 1, "version %v", version)
	_ = m["include"].([]any)
	cases := map[string]object{}
	for _, r := range m["requested_cases"].([]any) {
		r := r.(object)
		c := r["case"].(object)
		id := c["case_id"].(string)
		cases[id] = c
		for _, field := range []string{"ep", "gpus_per_node", "nodes", "scale_up_domain"} {
			_ = c[field].(float64)
		}
		for _, field := range []string{"backend", "phase", "topology_class", "scale_up_transport"} {
			_ = c[field].(string)
		}
		if t := c["scale_out_transport"]; t != nil {
			_ = t.(string)
		}
		if c["suite"] == "kv-transfer" {
			_ = c["isl_ladder"].(string)
		} else {
			ladder(c)
		}
		_ = r["sku"].(string)
		switch r["disposition"].(string) {
		case "runnable":
			d.coverage[id] = outcome{"pending", ""}
		case "unsupported":
			reason, _ := r["reason"].(string)
			d.coverage[id] = outcome{"unsupported", reason}
		default:
			panic("disposition")
		}
	}
	for _, raw := range shards {
		var doc object
		must(json.Unmarshal(raw, &doc))
		check(number(doc["version"]) == version, "shard of version %v", doc["version"])
		if doc["record_type"] != "case-attempt" {
			continue
		}
		d.document(doc)
	}
	return d, nil
}

func (d *dashboard) document(doc object) {
	identity := doc["identity"].(object)
	id := identity["case_id"].(string)
	check(id != "", "no case id")
	rows := doc["measurement"].(object)["rows"].([]any)
	factors := identity["case_factors"].(object)
	_ = factors["sku"].(string)
	c := factors["case"].(object)
	kv := c["suite"] == "kv-transfer"
	if !kv {
		ladder(c)
	}
	vendor := strings.ToLower(doc["runtime"].(object)["vendor"].(string))
	_ = doc["implementation"].(object)["name"].(string)
	end := doc["outcome"].(object)
	reason := ""
	if reasons := end["reasons"].([]any); len(reasons) > 0 {
		reason = reasons[0].(string)
	}
	status := end["status"].(string)
	switch status {
	case "success", "unsupported", "failed", "invalid", "diagnostic", "pending":
	default:
		status = "failed"
	}
	if old, ok := d.coverage[id]; ok && (old.status == "success" || (old.status != "pending" && status != "success")) {
		return // success beats failure, the first document wins
	}
	d.coverage[id] = outcome{status, reason}
	if status != "success" || (vendor != "amd" && vendor != "nvidia") {
		return
	}
	for _, r := range rows {
		r := r.(object)
		if kv {
			d.kv[id] = append(d.kv[id], readKV(c, r))
			continue
		}
		p := point{tokens: number(r["tokens_per_rank"])}
		_ = number(r["global_tokens"])
		components := r["components"].(object)
		for _, op := range []string{"dispatch", "stage", "combine", "roundtrip"} {
			block := components[op].(object)
			_ = block["availability"].(string)
			q, _ := block["percentiles_us"].(object)
			for _, name := range []string{"p50", "p90", "p95", "p99"} {
				if q != nil {
					_ = number(q[name])
				}
			}
			basis, newer := r["wire_byte_provenance"].(object)
			if !newer {
				basis = r["byte_provenance"].(object)
			}
			bytes := basis[op].(object)
			_ = number(bytes["activation_data_bytes"])
			if op == "dispatch" {
				p.rateGBps = number(bytes["total_logical_bytes"]) / number(c["ep"]) / number(q["p50"]) * 1e-3
			}
			if op == "roundtrip" {
				p.roundtrip = number(q["p99"])
			}
		}
		for _, name := range []string{"p50", "p90", "p95", "p99"} {
			_ = number(r["token_rate_at_latency_percentile"].(object)[name])
		}
		d.series[id] = append(d.series[id], p)
	}
}

func readKV(c, r object) kvPoint {
	latency := r["latency_ms"].(object)
	for _, name := range []string{"p50", "p95", "min", "max", "n"} {
		_ = number(latency[name])
	}
	check(r["verify"].(object)["passed"].(bool), "a row that did not pass")
	p := kvPoint{
		kind: r["kind"].(string), op: r["op"].(string), fabric: c["mode"].(string), isl: number(r["isl"]), batch: number(r["batch"]),
		descs: number(r["descs"]), bytes: number(r["req_bytes"]), p50: number(latency["p50"]), gbs: number(r["gbps_p50"]),
	}
	check(p.kind == "paged" || p.kind == "bulk", "kind %q", p.kind)
	check(p.op == "pull" || p.op == "push", "op %q", p.op)
	if page := r["page_tokens"]; page != nil {
		p.page = number(page)
	}
	return p
}

func ladder(c object) {
	for f := range strings.SplitSeq(c["ladder"].(string), " ") {
		n, err := strconv.Atoi(f)
		must(err)
		check(n > 0, "ladder %q", c["ladder"])
	}
}

func number(v any) float64 { return v.(float64) }

func must(err error) { check(err == nil, "%v", err) }

func check(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf(format, args...))
	}
}

// mixedRun is a run of every kind: EP that succeeded, EP that failed, EP that
// the plan ended, EP beyond CollectiveX's plan, and a collective.
func mixedRun(t *testing.T) (matrix []byte, shards [][]byte, ids [3]string) {
	ok, crashed, never := resulttest.EPCase(), resulttest.EPCase(), resulttest.EPCase()
	crashed.Precision, ep.Of(&never).Phase = "fp8", "prefill"
	for i, c := range []*plan.Case{&ok, &crashed, &never} {
		c.CaseID = c.ID()
		ids[i] = c.CaseID
	}
	skewed := resulttest.EPCase()
	ep.Of(&skewed).Routing = "zipf"
	skewed.CaseID = skewed.ID()
	swaps := plantest.Copy("ce", "swap_blocks_h2d") // which the dashboard reads from runs of their own, in another form
	reason := "backend-platform-unsupported"
	m := plan.Matrix{
		Version:   plan.MatrixVersion,
		Generator: plan.Generator{Program: "cxgen", Version: "dev", Format: plan.Format},
		RequestedCases: []plan.Requested{
			{SKU: "local", Disposition: plan.Runnable, Case: ok},
			{SKU: "local", Disposition: plan.Runnable, Case: crashed},
			{SKU: "local", Disposition: plan.Unsupported, Reason: &reason, Case: never},
		},
		RequestedOther: []plan.Requested{
			{SKU: "local", Disposition: plan.Runnable, Case: resulttest.CollectiveCase()},
			{SKU: "local", Disposition: plan.Runnable, Case: skewed},
			{SKU: swaps.SKU, Disposition: plan.Runnable, Case: swaps},
		},
		Include: []plan.Cell{},
	}
	var b strings.Builder
	require.NoError(t, m.Write(&b))
	a := resulttest.Attempt()
	a.Vendor = "nvidia"
	documents := []result.Document{
		resulttest.EP(ok, a),
		resulttest.Fail(resulttest.New(crashed, a), result.ReasonRankDied.With("rank %d signal %d", 1, 9).String()),
		resulttest.Collective(resulttest.CollectiveCase(), a),
		resulttest.EP(skewed, a),
		resulttest.Fail(resulttest.New(resulttest.CollectiveCase(), a), string(result.ReasonTimeout)),
		resulttest.Copy(swaps, a),
	}
	for _, d := range documents {
		shards = append(shards, encoded(t, d))
	}
	return []byte(b.String()), shards, ids
}

func TestTheDashboardReadsAMixedRun(t *testing.T) {
	matrix, shards, ids := mixedRun(t)
	d, err := readRun(matrix, shards)
	require.NoError(t, err)
	require.Equal(t, map[string]outcome{
		ids[0]: {"success", ""},
		ids[1]: {"failed", "rank-died: rank 1 signal 9"},
		ids[2]: {"unsupported", "backend-platform-unsupported"},
	}, d.coverage)
	require.Len(t, d.series, 1)
	points := d.series[ids[0]]
	require.Len(t, points, 3)
	require.Equal(t, 4.0, points[2].tokens)
	require.InDelta(t, 42, points[2].roundtrip, 1e-9)
	// 16 copies of 7168 bf16 in 14 µs over 2 ranks.
	require.InDelta(t, 16*7168*2/2/14*1e-3, points[2].rateGBps, 1e-2)
}

// A transfer that CollectiveX itself plans is drawn, and shares its record type with EP.
// One that it does not plan is skipped.
func TestTheDashboardReadsTransfers(t *testing.T) {
	upstream, host := resulttest.UpstreamTransferCase(), resulttest.TransferCase()
	m := plan.Matrix{
		Version: plan.MatrixVersion, Generator: plan.Generator{Program: "cxgen", Version: "dev", Format: plan.Format},
		RequestedCases: []plan.Requested{{SKU: "local", Disposition: plan.Runnable, Case: upstream}},
		RequestedOther: []plan.Requested{{SKU: "local", Disposition: plan.Runnable, Case: host}},
		Include:        []plan.Cell{},
	}
	var matrix strings.Builder
	require.NoError(t, m.Write(&matrix))
	require.NotContains(t, matrix.String(), `"ladder"`)
	a := resulttest.Attempt()
	a.Vendor = "nvidia"
	d, err := readRun([]byte(matrix.String()), [][]byte{encoded(t, resulttest.Transfer(upstream, a)), encoded(t, resulttest.Transfer(host, a)), encoded(t, resulttest.EP(resulttest.EPCase(), a))})
	require.NoError(t, err)
	require.Equal(t, outcome{"success", ""}, d.coverage[upstream.CaseID])
	require.NotContains(t, d.coverage, host.CaseID)
	require.Len(t, d.series, 1, "of EP")
	points := d.kv[upstream.CaseID]
	require.Len(t, points, 2*3, "bulk and two batches, both ways")
	require.Equal(t, kvPoint{kind: "bulk", op: "pull", fabric: "rdma", isl: 256, batch: 1, descs: 1, bytes: points[1].bytes, p50: points[0].p50, gbs: points[0].gbs}, points[0])
	require.Equal(t, 16.0, points[2].page)
	require.Equal(t, 4.0, points[2].batch)
	require.InDelta(t, points[2].bytes*4/points[2].p50/1e6, points[2].gbs, 0.01)
}

// Both families write documents of this record type, compact or not.
func TestOneRecordTypeOfTwoFamilies(t *testing.T) {
	for _, d := range []result.Document{
		resulttest.EP(resulttest.EPCase(), resulttest.Attempt()), resulttest.Transfer(resulttest.UpstreamTransferCase(), resulttest.Attempt()),
	} {
		require.Equal(t, result.RecordUpstream, d.Head().RecordType)
		data := encoded(t, d)
		for _, text := range [][]byte{data, append([]byte(" "), data...)} {
			read, err := result.Decode(text)
			require.NoError(t, err)
			require.IsType(t, d, read)
		}
		other := strings.ReplaceAll(string(data), `"family":"`+string(d.Head().Identity.Case.Family)+`"`, `"family":"collective"`)
		_, err := result.Decode([]byte(other))
		require.Error(t, err)
	}
}

// The reader above must be one that a bad document fails.
func TestTheDashboardRejectsWhatLacksAField(t *testing.T) {
	for _, tc := range []struct{ name, old, new string }{
		{"another version", `"version":1`, `"version":2`},
		{"no case id", `"case_id"`, `"x"`},
		{"no rows", `"rows"`, `"x"`},
		{"no vendor", `"vendor"`, `"x"`},
		{"no outcome", `"outcome"`, `"x"`},
		{"no ladder", `"ladder"`, `"x"`},
		{"no components", `"components"`, `"x"`},
		{"no bytes", `byte_provenance"`, `x"`},
		{"no token rate", `"token_rate_at_latency_percentile"`, `"x"`},
		{"truncated", `}}`, ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			matrix, shards, _ := mixedRun(t)
			broken := strings.ReplaceAll(string(shards[0]), tc.old, tc.new)
			require.NotEqual(t, string(shards[0]), broken)
			_, err := readRun(matrix, [][]byte{shards[2], []byte(broken)})
			require.ErrorContains(t, err, "rejected")
		})
	}
}

// The dashboard gives one label and colour to cases that differ in routing,
// contract, repeat or workload alone: it must not see more than one of them.
func TestTheDashboardSeesOneCaseOfALabel(t *testing.T) {
	for name, change := range map[string]func(*plan.Case){
		"routing":  func(c *plan.Case) { ep.Of(c).Routing = "zipf" },
		"contract": func(c *plan.Case) { c.Contract = ep.ContractCachedLayout },
		"repeat":   func(c *plan.Case) { c.Repeat = 2 },
		"workload": func(c *plan.Case) { ep.Of(c).Workload = "small" },
		"graph":    func(c *plan.Case) { ep.Of(c).TimingMode = vocab.Graph },
	} {
		t.Run(name, func(t *testing.T) {
			c := resulttest.EPCase()
			change(&c)
			c.CaseID = c.ID()
			a := resulttest.Attempt()
			a.Vendor = "nvidia"
			matrix, shards, ids := mixedRun(t)
			shards = append(shards, encoded(t, resulttest.EP(c, a)))
			d, err := readRun(matrix, shards)
			require.NoError(t, err)
			require.Len(t, d.series, 1)
			require.Contains(t, d.series, ids[0])
			require.NotContains(t, d.coverage, c.CaseID)
		})
	}
}

// Figures of a host or of a vendor that the dashboard does not know are in its
// coverage alone.
func TestTheDashboardHidesOtherVendors(t *testing.T) {
	for vendor, shown := range map[string]bool{"nvidia": true, "amd": true, "host": false} {
		matrix, _, ids := mixedRun(t)
		a := resulttest.Attempt()
		a.Vendor = vendor
		d, err := readRun(matrix, [][]byte{encoded(t, resulttest.EP(resulttest.EPCase(), a))})
		require.NoError(t, err)
		require.Equal(t, outcome{"success", ""}, d.coverage[ids[0]], vendor)
		_, there := d.series[ids[0]]
		require.Equal(t, shown, there, vendor)
	}
}

// A layout that sends each token once for each expert moves more than one that
// sends it once for each rank.
func TestTheDashboardPrefersBytesOnTheWire(t *testing.T) {
	rate := func(change func(*ep.Row)) float64 {
		a := resulttest.Attempt()
		a.Vendor = "nvidia"
		doc := resulttest.EP(resulttest.EPCase(), a)
		for i := range doc.Measurement.Rows {
			change(&doc.Measurement.Rows[i])
		}
		matrix, _, ids := mixedRun(t)
		data, err := result.Encode(doc)
		require.NoError(t, err)
		d, err := readRun(matrix, [][]byte{data})
		require.NoError(t, err)
		return d.series[ids[0]][0].rateGBps
	}
	perRank := rate(func(*ep.Row) {})
	require.InDelta(t, perRank, rate(func(r *ep.Row) { r.WireBytes = nil }), 1e-9, "older documents")
	perAssignment := rate(func(r *ep.Row) {
		r.LogicalCopies.Wire = ep.WirePerAssignment
		times := r.LogicalCopies.Assignments / r.LogicalCopies.Routed
		scaled := func(c ep.ByteCount) ep.ByteCount {
			return ep.ByteCount{Activation: times * c.Activation, Scale: times * c.Scale, Total: times * c.Total}
		}
		r.WireBytes = &ep.Bytes{
			Dispatch: scaled(r.Bytes.Dispatch), Combine: scaled(r.Bytes.Combine), Roundtrip: scaled(r.Bytes.Roundtrip),
		}
	})
	require.InDelta(t, 4*perRank, perAssignment, 1e-9, "8 experts on 2 ranks")
}

// The dashboard keeps the first failure of a case that it reads, and reads the
// files of an artifact in the order of their names.
func TestTheDashboardShowsTheNewestFailure(t *testing.T) {
	dir := t.TempDir()
	for ordinal, reason := range []result.Code{result.ReasonTimeout, result.ReasonDevice, result.ReasonRankDied} {
		a := resulttest.Attempt()
		a.Ordinal = ordinal + 1
		a.At = a.At.Add(time.Duration(ordinal) * time.Minute)
		_, err := result.Write(dir, resulttest.Fail(resulttest.New(resulttest.EPCase(), a), string(reason)), 0, all)
		require.NoError(t, err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	var shards [][]byte
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		shards = append(shards, data)
	}
	matrix, _, ids := mixedRun(t)
	d, err := readRun(matrix, shards)
	require.NoError(t, err)
	require.Equal(t, outcome{"failed", string(result.ReasonRankDied)}, d.coverage[ids[0]])
}

func encoded(t *testing.T, d result.Document) []byte {
	t.Helper()
	require.NoError(t, result.Validate(d))
	data, err := result.Encode(d)
	require.NoError(t, err)
	return data
}
