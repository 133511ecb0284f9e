package transfer

import (
	"fmt"
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

func newDocument(head result.Envelope) result.Document {
	t := Of(&head.Identity.Case)
	head.Implementation.Fabric = t.Mode
	head.Topology.RanksPerNode = head.Identity.Case.RanksPerNode
	d := &Document{
		Envelope: head,
		Workload: Workload{
			Preset: t.Workload, ISLLadder: t.ISLLadder, PageTokens: t.PageTokens, BatchSizes: t.BatchSizes, Ops: t.Ops,
			Seed: t.Seed, MaxBurstTokens: MaxBurstTokens, RowBytes: rowBytes(t), Dropped: []DroppedPoint{},
		},
		Measurement: Measurement{
			PayloadUnit: payloadUnit, Rows: []Row{}, Points: []Points{}, PoolBudget: t.PoolBudget,
			Sampling: SampleCounts{t.Timing.Warmup, t.Timing.Reps, t.Timing.Trials},
			First:    []First{}, Sustained: []Sustained{}, Released: []Released{}, Fit: []Fit{},
		},
	}
	_, dropped := t.Points()
	for _, p := range dropped {
		d.Drop(p, result.ReasonRefused.With("%s", t.Exceeds(p)))
	}
	return d
}

// rowBytes returns the size of the largest entry of a cache.
func rowBytes(t *Block) (largest int64) {
	for _, e := range t.Entries {
		largest = max(largest, e.Bytes)
	}
	return largest
}

// Drop records a point that is not measured.
func (d *Document) Drop(p Point, why result.Reason) {
	d.Workload.Dropped = append(d.Workload.Dropped, DroppedPoint{p.ISL, p.Page, p.Batch, why})
}

// compared is the part of a case that two documents must share to be compared. It has no ladders, because
// rows are matched one by one. It has what a row's times and the sustained bursts take from the ladders:
// the size of the pools, which sets the number of tables of each burst, and the row that is sustained.
// SustainMillis is missing if it is that of sustainOf, as it is in documents of earlier versions.
type compared struct {
	Workload  string           `json:"workload"`
	Mode      string           `json:"mode"`
	Handle    string           `json:"handle,omitempty"`
	Routing   string           `json:"routing"`
	Seed      uint64           `json:"seed"`
	Timing    plan.Repetitions `json:"timing"`
	PoolSlack int              `json:"pool_slack"`
	Device    string           `json:"kv_device,omitempty"`
	Entries   []CacheEntry     `json:"entries"`
	PoolBytes int64            `json:"pool_bytes,omitempty"` // without guards; this and Sustained are missing if no burst fits
	Sustained []int            `json:"sustained,omitempty"`  // context, page and requests

	SustainMillis int `json:"sustain_ms,omitempty"`
}

// sustainOf has the sustain_ms of the sampling profiles that earlier versions shipped.
var sustainOf = map[string]int{"fixed-v1": 3000, "quick-v1": 1000, "smoke": 100}

func comparison(c *plan.Case) any {
	t := Of(c)
	of := compared{Workload: t.Workload, Mode: t.Mode, Handle: t.Handle, Routing: t.Routing, Seed: t.Seed, Timing: t.Timing, PoolSlack: t.PoolSlack, Device: t.Device, Entries: t.Entries}
	if t.SustainMillis != sustainOf[c.Sampling] {
		of.SustainMillis = t.SustainMillis
	}
	if kept, _ := t.Points(); len(kept) > 0 {
		last := kept[len(kept)-1]
		of.PoolBytes, of.Sustained = int64(t.PoolSlack)*largest(kept), []int{last.ISL, last.Page, last.Batch}
	}
	return of
}

// largest returns the bytes of the largest burst.
func largest(points []Point) (bytes int64) {
	for _, p := range points {
		bytes = max(bytes, p.Bytes)
	}
	return bytes
}

// settled returns the case of a document with the pool budget that its largest burst needs. The bursts
// that the ranks dropped exceed this budget.
func settled(d result.Document) plan.Case {
	c := d.Head().Identity.Case
	t := *Of(&c)
	t.PoolBudget = int64(t.PoolSlack) * largest(d.(*Document).points())
	c.Block = &t
	return c
}

// older returns the comparison key of earlier documents, which did not depend on the bursts or on how long
// they are sustained.
func older(e *result.Envelope) result.Older {
	c := e.Identity.Case
	t := *Of(&c)
	t.PoolBudget, t.SustainMillis, c.Block = 0, sustainOf[c.Sampling], &t
	key, err := result.ComparisonKey(c, e.Provenance.Environment)
	if err != nil {
		return result.Older{}
	}
	return result.Older{ComparisonKey: key}
}

func check(p *result.Problems, doc result.Document) {
	d := doc.(*Document)
	m := &d.Measurement
	checkHead(p, d)
	var bad []string
	seen := map[string]bool{}
	for i := range m.Rows {
		r := &m.Rows[i]
		p.Check(!seen[r.Name()], "measurement.rows: %s appears twice", r.Name())
		seen[r.Name()] = true
		checkRow(p, Of(&d.Identity.Case), r)
		if !r.Good() {
			bad = append(bad, r.Name()+": "+r.Verify.Detail)
		}
	}
	bad = append(bad, checkBursts(p, d)...)
	checkSetup(p, m)
	p.Outcome(d.Outcome, len(m.Rows), bad, func(p *result.Problems) { checkSuccess(p, d, seen) })
}

// checkHead checks the fields of a document that repeat its case.
func checkHead(p *result.Problems, d *Document) {
	c := &d.Identity.Case
	t, m, w := Of(c), &d.Measurement, &d.Workload
	p.Check(t.EP == c.World && c.World == Ranks && t.Phase == Phase, "identity.case is a transfer of %d ranks", c.World)
	p.Check(d.Implementation.Fabric == t.Mode, "implementation.fabric is %q, want the lane of the case, %q", d.Implementation.Fabric, t.Mode)
	p.Check(m.Rows != nil && m.Points != nil && m.First != nil && m.Sustained != nil && m.Released != nil && m.Fit != nil && w.Dropped != nil,
		"measurement or workload has a null list")
	p.Check(w.MaxBurstTokens == MaxBurstTokens, "workload.max_burst_tokens is %d, want %d", w.MaxBurstTokens, MaxBurstTokens)
	p.Check(m.PoolBudget <= t.PoolBudget && (m.Setup == nil || m.Setup.PoolBytes <= m.PoolBudget), "measurement.pool_budget is %d, below the pool or above the budget of the case, %d", m.PoolBudget, t.PoolBudget)
	for _, x := range m.Points {
		ok := slices.Contains(t.ISLLadder, x.ISL) && slices.Contains(t.PageTokens, x.PageTokens) && len(x.TableSets) <= len(x.Batches)
		p.Check(ok && !slices.ContainsFunc(x.Batches, func(n int) bool { return !slices.Contains(t.BatchSizes, n) }), "measurement.points: isl %d in pages of page_tokens %d with batches %v were not asked for", x.ISL, x.PageTokens, x.Batches)
	}
	p.Check(m.Sampling == SampleCounts{t.Timing.Warmup, t.Timing.Reps, t.Timing.Trials}, "measurement.sampling does not match the timing of the case")
	p.Check(w.Preset == t.Workload && w.Seed == t.Seed && slices.Equal(w.ISLLadder, t.ISLLadder) && slices.Equal(w.PageTokens, t.PageTokens) &&
		slices.Equal(w.BatchSizes, t.BatchSizes) && slices.Equal(w.Ops, t.Ops) && (w.RowBytes == 0 || w.RowBytes == rowBytes(t)), "workload does not match the case")
	for i, x := range w.Dropped {
		if err := x.Reason.Check(); err != nil {
			p.Add("workload.dropped[%d]: %w", i, err)
		}
		asked := slices.Contains(t.ISLLadder, x.ISL) && slices.Contains(t.PageTokens, x.PageTokens) && slices.Contains(t.BatchSizes, x.Batch)
		p.Check(asked, "workload.dropped[%d]: isl %d in pages of page_tokens %d with batch %d was not asked for", i, x.ISL, x.PageTokens, x.Batch)
	}
}

// checkBursts checks the measurements other than rows, and returns those that did not pass.
func checkBursts(p *result.Problems, d *Document) (bad []string) {
	t, m := Of(&d.Identity.Case), &d.Measurement
	verdict := func(at, name string, v *result.Verify) {
		p.Verdict(at, v)
		if !v.Passed {
			bad = append(bad, name+": "+v.Detail)
		}
	}
	for _, f := range m.First {
		at := fmt.Sprintf("measurement.first[%s of %d bytes]", f.Op, f.Bytes)
		p.Check(slices.Contains(t.Ops, f.Op) && f.Bytes > 0, "%s was not asked for", at)
		p.Burst(at+".latency_ms", f.Millis, f.Millis.N, true)
		if f.Verify == nil {
			p.Check(!p.Fresh(), "%s: verify is missing", at)
			continue
		}
		verdict(at, fmt.Sprintf("%s of %d bytes", f.Op, f.Bytes), f.Verify)
	}
	for i := range m.Sustained {
		s := &m.Sustained[i]
		at := "measurement.sustained[" + s.Op + "]"
		p.Check(slices.Contains(t.Ops, s.Op) && s.Bursts > 0 && s.InFlight > 0 && s.Seconds > 0 && s.Bytes > 0, "%s has no bursts, or was not asked for", at)
		p.Check(m.TwoSided && s.Parts == 0 || 1e3*s.Seconds >= float64(t.SustainMillis), "%s lasted %v s, must be at least %d ms", at, s.Seconds, t.SustainMillis)
		p.Check(d.Outcome.Status != result.Success || slices.ContainsFunc(m.Rows, func(r Row) bool { return r.Op == s.Op && r.ReqBytes*int64(r.Batch)*int64(s.Bursts) == s.Bytes }),
			"%s: bytes %d are not those of %d bursts of a row", at, s.Bytes, s.Bursts)
		p.Check(s.Parts == 0 || !s.Verify.Passed || s.Verify.Checks >= s.Parts*Ranks, "%s passed with %d checks of parts %d", at, s.Verify.Checks, s.Parts)
		rate := float64(s.Bytes) / 1e9 / s.Seconds
		p.Check(math.Abs(s.GBps-rate) <= 1e-6*rate, "%s: gbps is %v, want %v from bytes and seconds", at, s.GBps, rate)
		p.Check(s.CPUPoster >= 0 && s.CPU >= s.CPUPoster, "%s: cpu_s_per_gb is %v, must be at least cpu_s_per_gb_poster, which is %v", at, s.CPU, s.CPUPoster)
		verdict(at, s.Op+" sustained", &s.Verify)
	}
	for i := range m.Released {
		r := &m.Released[i]
		verdict("measurement.released["+r.Op+"]", r.Op+" after release", &r.Verify)
	}
	for _, f := range m.Fit {
		p.Check(slices.Contains(t.Ops, f.Op) && f.Alpha >= 0 && f.Beta >= 0 && f.GBps >= 0 && f.Points > 0 && f.MaxPercent >= 0,
			"measurement.fit[%s] was not asked for, or has a figure below 0: %+v", f.Op, f)
		points, percent := f.residual(m.Rows)
		failed := slices.ContainsFunc(m.Rows, func(r Row) bool { return r.Op == f.Op && !r.Verify.Passed })
		p.Check(failed || f.Points == points && math.Abs(f.MaxPercent-percent) <= 0.1+0.01*percent,
			"measurement.fit[%s] has points %d and max_residual_percent %v, but %d rows and %v by its alpha_us, beta_us_per_block and gbps", f.Op, f.Points, f.MaxPercent, points, percent)
		why := f.Refuted(d.Limits)
		p.Check(!p.Fresh() || why == "", "measurement.fit[%s]: %s", f.Op, why)
	}
	return bad
}

func checkSetup(p *result.Problems, m *Measurement) {
	if s := m.Setup; s != nil {
		p.Check(s.PoolBytes > 0 && s.RegisterMillis >= 0 && s.ConnectMillis >= 0, "measurement.setup has no pool, or a time below 0: %+v", *s)
		each := s.RegisterMillis / (float64(s.PoolBytes) / (1 << 30))
		p.Check(s.PoolBytes <= 0 || math.Abs(s.RegisterMillisPerGiB-each) <= 1e-6*each, "measurement.setup.register_ms_per_gib is %v, want %v from time and pool", s.RegisterMillisPerGiB, each)
	}
}

// checkSuccess checks that a successful document is complete; seen are the names of its rows.
func checkSuccess(p *result.Problems, d *Document, seen map[string]bool) {
	t, m := Of(&d.Identity.Case), &d.Measurement
	p.Check(m.Lane == t.Mode, "outcome is success, but the data took lane %q instead of %q", m.Lane, t.Mode)
	p.Check(t.Handle == "" || m.Transport == t.Handle, "outcome is success, but the pool was opened by handle %q instead of %q", m.Transport, t.Handle)
	p.Check(m.CheckedBy != "", "outcome is success, but measurement.checked_by is empty")
	p.Check(m.Setup != nil && len(m.Released) == len(t.Ops) && len(m.Sustained) == len(t.Ops) && len(m.First) > 0,
		"outcome is success, but setup, first, sustained or released is missing")
	p.Check(d.Topology.DeviceProduct != "", "topology.device_product is empty")
	rows := 0
	for _, asked := range d.Asked() {
		rows++
		p.Check(seen[asked.Name()], "outcome is success, but %s was not measured", asked.Name())
	}
	p.Check(rows == len(m.Rows), "outcome is success with %d rows of %d", len(m.Rows), rows)
}

// Asked returns the requested rows that were not dropped, without their figures: for each operation the
// bulk rows and then the paged ones.
func (d *Document) Asked() []Row { return AskedRows(Of(&d.Identity.Case), d.points()) }

// points returns the bursts of paged rows that were not dropped.
func (d *Document) points() (points []Point) {
	dropped := func(p Point) bool {
		return slices.ContainsFunc(d.Workload.Dropped, func(x DroppedPoint) bool { return x.ISL == p.ISL && x.PageTokens == p.Page && x.Batch == p.Batch })
	}
	kept, _ := Of(&d.Identity.Case).Points()
	for _, p := range kept {
		if !dropped(p) {
			points = append(points, p)
		}
	}
	return points
}

// repeatable returns how many trials of the rows of a case are repeated after a capped clock.
func repeatable(c *plan.Case) int {
	points, _ := Of(c).Points()
	return len(AskedRows(Of(c), points)) * Of(c).Timing.Trials
}

// AskedRows returns the rows of the points, without their figures: for each operation a bulk row for
// each context length, of the bytes of a request on the first kept page size, and then a paged row for
// each point.
func AskedRows(t *Block, points []Point) (rows []Row) {
	for _, op := range t.Ops {
		last := 0
		for _, p := range points {
			_, bytes := t.Request(p.ISL, p.Page)
			if p.ISL != last && bytes <= MaxBulkBytes {
				last = p.ISL
				rows = append(rows, Row{Kind: KindBulk, Preset: t.Workload, ISL: p.ISL, Layers: t.Layers, Descs: 1, DescsMerged: 1, ReqBytes: bytes, Batch: 1, Op: op})
			}
		}
		for _, p := range points {
			blocks, bytes := t.Request(p.ISL, p.Page)
			var largest int64
			for _, e := range t.Entries {
				_, size := e.Blocks(p.ISL, p.Page)
				largest = max(largest, size)
			}
			rows = append(rows, Row{
				Kind: KindPaged, Preset: t.Workload, ISL: p.ISL, PageTokens: &p.Page, PageBytes: &largest, RowBytes: &largest, Layers: t.Layers,
				Descs: blocks, ReqBytes: bytes, Batch: p.Batch, Op: op,
			})
		}
	}
	return rows
}

func checkRow(p *result.Problems, t *Block, r *Row) {
	at := "measurement.rows[" + r.Name() + "]"
	p.Check(slices.Contains(t.Ops, r.Op) && slices.Contains(t.ISLLadder, r.ISL) && r.Preset == t.Workload && r.Layers == t.Layers, "%s was not asked for", at)
	if r.Kind == KindPaged {
		ok := r.PageTokens != nil && r.PageBytes != nil && slices.Contains(t.PageTokens, *r.PageTokens) && slices.Contains(t.BatchSizes, r.Batch)
		p.Check(ok, "%s was not asked for", at)
		if ok {
			blocks, bytes := t.Request(r.ISL, *r.PageTokens)
			p.Check(r.Descs == blocks && r.ReqBytes == bytes, "%s has %d blocks and %d bytes, want %d and %d by the case", at, r.Descs, r.ReqBytes, blocks, bytes)
		}
	} else {
		p.Check(r.PageTokens == nil && r.PageBytes == nil && r.Batch == 1 && r.Descs == 1, "%s: a bulk row has one block and no pages", at)
	}
	p.Check(r.RowBytes == nil || r.PageBytes != nil && *r.RowBytes == *r.PageBytes, "%s: row_bytes differs from page_bytes", at)
	p.Check(r.DescsMerged > 0 && r.DescsMerged <= r.Descs, "%s: descs_merged is %d, want 1 to %d", at, r.DescsMerged, r.Descs)
	p.Burst(at+".latency_ms", r.Latency, t.Timing.Reps*t.Timing.Trials, r.Complete)
	p.Burst(at+".request_ms", r.Request, r.Batch*t.Timing.Reps*t.Timing.Trials, r.Complete)
	const nanosecond = 2e-6 // times are rounded to one
	for _, part := range []struct {
		name string
		p50  float64
	}{{"prepare_p50", r.Parts.Prepare}, {"post_p50", r.Parts.Post}, {"wait_p50", r.Parts.Wait}, {"request_ms.p50", r.Request.P50}} {
		p.Check(part.p50 <= r.Latency.P50+nanosecond, "%s: %s is %v, above the latency_ms of the burst, %v", at, part.name, part.p50, r.Latency.P50)
	}
	p.Check(r.Request.Max <= r.Latency.Max+nanosecond, "%s: request_ms.max is %v, above latency_ms.max, %v", at, r.Request.Max, r.Latency.Max)
	if r.Latency.P50 > 0 {
		want, rounding := r.Rate(), 0.01
		if p.Fresh() {
			rounding = 0
		}
		p.Check(math.Abs(r.GBps-want) <= rounding+0.001*want, "%s: gbps_p50 is %v, want %v from bytes and latency", at, r.GBps, want)
		p.Check(r.GBpsPrepared == 0 || r.GBpsPrepared == r.GBps, "%s: gbps_p50_incl_prep is %v, want gbps_p50, %v", at, r.GBpsPrepared, r.GBps)
	}
	p.Verdict(at+".verify", &r.Verify)
}
