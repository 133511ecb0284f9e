package runner

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/plausible"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// track is what one rank recorded of a case.
type track struct {
	setup     *setup
	firsts    []first
	trials    []trial
	checks    []check
	sustained []sustained
	lane      *Lane
}

// Assemble fills the document of a transfer case from the records of its ranks; see shard.Assembler.
func Assemble(doc result.Document, streams []rank.Stream) error {
	d, ok := doc.(*transfer.Document)
	if !ok {
		return fmt.Errorf("document of type %T for a transfer case", doc)
	}
	tracks, _, done, err := rank.Tracks(transfer.Ranks, streams, read)
	if err != nil {
		return err
	}
	d.Implementation.LibraryVersion = rank.LibraryVersion(streams)
	serving, posting := &tracks[0], &tracks[1]
	if serving.setup == nil || posting.setup == nil { // the records of a finished rank are lost
		d.Outcome = rank.Judge(d.Outcome, nil, done, false)
		return nil
	}
	if !agree(*serving.setup, *posting.setup) {
		return fmt.Errorf("the setup records of ranks 0 and 1 differ")
	}
	a := &assembly{Document: d, block: transfer.Of(&d.Identity.Case), tracks: tracks, counts: func(row int) map[int]int { return rank.Counting(streams, trialsOf(row)) }}
	a.setup()
	if d.ComparisonKey, err = result.ComparisonKey(result.Settled(d), d.Provenance.Environment); err != nil {
		return err
	}
	if err := a.rows(); err != nil {
		return err
	}
	d.EntrySkew = a.entrySkew()
	limited := d.Identity.Case
	if a.block.Mode == vocab.LaneRDMA {
		limited.ScaleUpDomain = 1 // the data pass the ports of both nodes, even if these are in one domain
	}
	d.Limits = plausible.Limits(limited, streams)
	if err := a.rest(); err != nil {
		return err
	}
	a.judge(done)
	return nil
}

// agree compares the values that must be the same on both ranks.
func agree(a, b setup) bool {
	a.Register, a.Connect, b.Register, b.Connect = 0, 0, 0, 0
	return reflect.DeepEqual(a, b)
}

func read(s rank.Stream, t *track) error {
	return s.Read(rank.Kinds{
		kindSetup:     rank.Last(&t.setup),
		kindFirst:     rank.Append(&t.firsts),
		kindTrial:     rank.Append(&t.trials),
		kindCheck:     rank.Append(&t.checks),
		kindSustained: rank.Append(&t.sustained),
		kindLane:      rank.Last(&t.lane),
	})
}

// assembly is the document and its inputs.
type assembly struct {
	*transfer.Document
	block  *transfer.Block
	tracks []track
	counts func(row int) map[int]int // which repetition of a row's trial counts; see rank.Counting
	// implausible are reasons to doubt times; see doubt.
	implausible result.Reasons
}

// timedChecks returns the number of checks of the bursts of trials.
func (a *assembly) timedChecks(trials int) int {
	return transfer.Ranks * trials * min(transfer.CheckedReps, a.block.Timing.Reps)
}

const (
	hurriedFactor = 0.8  // of the fastest checked burst
	hurriedChance = 1e-4 // a case may have a thousand rows
)

// hurry returns a reason if unchecked bursts are implausibly fast. A burst is fast if it takes less than
// hurriedFactor of the fastest checked one. The reason is returned if random checks would miss all fast
// bursts with a probability of less than hurriedChance. The times are by trial and burst;
// counts says of which repetition of a trial.
func (a *assembly) hurry(row int, op string, latency []float64, counts map[int]int) result.Reasons {
	reps, checks, fastest := a.block.Timing.Reps, 0, math.Inf(1)
	for _, c := range a.tracks[postingRank].checks {
		if at := c.Number*reps + c.Rep; c.Row == row && c.Op == op && c.Repeat == counts[c.Number] && at < len(latency) {
			checks++
			fastest = min(fastest, latency[at])
		}
	}
	if transfer.Ranks*checks != a.timedChecks(a.block.Timing.Trials) {
		return nil // the verdict reports missing checks
	}
	chance, fast := 1.0, 0
	for trial := range slices.Chunk(latency, reps) {
		left := len(trial)
		for _, ms := range trial {
			if ms < hurriedFactor*fastest {
				left--
				fast++
			}
		}
		for i := range min(transfer.CheckedReps, len(trial)) {
			chance *= float64(left-i) / float64(len(trial)-i)
		}
	}
	if chance >= hurriedChance {
		return nil
	}
	return result.Reasons{result.ReasonImplausible.With("%d of %d unchecked bursts faster than all checked ones", fast, len(latency)-checks)}
}

func (a *assembly) setup() {
	m := &a.Measurement
	serving, posting := a.tracks[0].setup, a.tracks[1].setup
	lane := a.lane()
	m.Lane, m.Transport, m.LaneUnverified = lane.Name, lane.Transport, lane.Unverified
	m.TwoSided, m.CheckedBy, m.PoolBudget = posting.TwoSided, posting.Checked, posting.Budget
	if posting.Pool > 0 {
		register := max(serving.Register, posting.Register)
		m.Setup = &transfer.Setup{
			PoolBytes: posting.Pool, RegisterMillis: register, RegisterMillisPerGiB: register / (float64(posting.Pool) / (1 << 30)),
			ConnectMillis: posting.Connect,
		}
	}
	for _, p := range posting.Dropped {
		a.Drop(p, result.ReasonMemoryForSize.With("pool of %d bytes", poolBytes(a.block.PoolSlack, p.Bytes)))
	}
	rows := transfer.AskedRows(a.block, posting.Points)
	for i, p := range posting.Points {
		n := len(m.Points)
		if n == 0 || m.Points[n-1].ISL != p.ISL || m.Points[n-1].PageTokens != p.Page {
			m.Points = append(m.Points, transfer.Points{ISL: p.ISL, PageTokens: p.Page})
			n++
		}
		last := &m.Points[n-1]
		last.Batches = append(last.Batches, p.Batch)
		// The first operation's bulk rows come before its paged ones.
		bulk := len(rows)/len(a.block.Ops) - len(posting.Points)
		if bulk+i < len(posting.Sets) {
			last.TableSets = append(last.TableSets, posting.Sets[bulk+i])
		}
	}
}

// lane returns what moved the data, combined from the ranks that post. It is the zero value if one of
// these ranks did not report its lane.
func (a *assembly) lane() (lane Lane) {
	posting := a.tracks[1:]
	if a.tracks[1].setup.TwoSided {
		posting = a.tracks
	}
	for _, t := range posting {
		if t.lane == nil {
			return Lane{}
		}
		lane.Add(*t.lane)
	}
	lane.Name = cmp.Or(lane.Name, UnknownLane)
	return lane
}

// rows adds the rows that have a sample.
func (a *assembly) rows() error {
	for i, row := range transfer.AskedRows(a.block, a.tracks[1].setup.Points) {
		var all trial
		trials, counts := map[rank.Trial]trial{}, a.counts(i)
		for _, t := range a.tracks[1].trials {
			if t.Row != i {
				continue
			}
			if _, twice := trials[t.Trial]; twice || t.Number < 0 || t.Number >= a.block.Timing.Trials {
				return fmt.Errorf("row %d: trial %d appears twice or was not requested", i, t.Number)
			}
			trials[t.Trial] = t
		}
		for n := range a.block.Timing.Trials {
			t, ok := trials[rank.Trial{Number: n, Repeat: counts[n]}]
			if !ok || !a.slower(&t) {
				continue
			}
			all.Latency, all.Request = append(all.Latency, t.Latency...), append(all.Request, t.Request...)
			all.Prepare, all.Post = append(all.Prepare, t.Prepare...), append(all.Post, t.Post...)
			all.Release = append(all.Release, t.Release...)
		}
		if len(all.Latency) == 0 || len(all.Request) == 0 || len(all.Prepare) != len(all.Latency) || len(all.Post) != len(all.Latency) || len(all.Release) != len(all.Latency) {
			continue
		}
		row.DescsMerged = a.tracks[1].setup.Merged[i]
		row.Latency, row.Request = rounded(result.NewBurst(all.Latency)), rounded(result.NewBurst(all.Request))
		row.Complete = len(all.Latency) == a.block.Timing.Reps*a.block.Timing.Trials && len(all.Request) == len(all.Latency)*row.Batch
		waits := make([]float64, len(all.Latency))
		for k := range waits {
			waits[k] = all.Latency[k] - all.Prepare[k] - all.Post[k]
		}
		median := func(v []float64) float64 { return rounded(result.NewBurst(v)).P50 }
		row.Parts = transfer.Parts{Prepare: median(all.Prepare), Post: median(all.Post), Wait: max(0, median(waits)), Release: median(all.Release)}
		if row.Latency.P50 > 0 {
			row.GBps = row.Rate() // in full precision: CollectiveX rounds to 0.01, which is 0 on slow lanes
			row.GBpsPrepared = row.GBps
		}
		row.Verify = a.verdict(i, row.Op, a.timedChecks(max(len(trials), a.block.Timing.Trials)))
		a.doubt(&row.Verify, a.hurry(i, row.Op, all.Latency, counts))
		a.Measurement.Rows = append(a.Measurement.Rows, row)
	}
	return nil
}

// entrySkew summarizes how far apart both ranks began each trial. For a one-sided library only one
// rank begins trials.
func (a *assembly) entrySkew() *result.EntrySkew {
	type window struct {
		row int
		rank.Trial
	}
	entries := map[window][]rank.Entry{}
	for _, track := range a.tracks {
		for _, t := range track.trials {
			at := window{t.Row, t.Trial}
			entries[at] = append(entries[at], t.Entry)
		}
	}
	return rank.EntrySkew(a.Identity.Case.Nodes, transfer.Ranks, entries)
}

// slower raises the burst times of a trial to the slower rank's, if the library is two-sided. It
// reports whether both ranks have measured all bursts.
func (a *assembly) slower(t *trial) bool {
	if !a.tracks[1].setup.TwoSided {
		return true
	}
	i := slices.IndexFunc(a.tracks[0].trials, func(o trial) bool { return o.Row == t.Row && o.Trial == t.Trial })
	if i < 0 {
		return false
	}
	other := &a.tracks[0].trials[i]
	return longer(t.Latency, other.Latency) && longer(t.Request, other.Request) && longer(t.Prepare, other.Prepare) &&
		longer(t.Post, other.Post) && longer(t.Release, other.Release)
}

// longer raises each time to the peer's if that is longer. It reports whether both ranks have the same
// number of times.
func longer(times, others []float64) bool {
	if len(times) != len(others) {
		return false
	}
	for i, v := range others {
		times[i] = max(times[i], v)
	}
	return true
}

// rounded rounds to nanoseconds. CollectiveX rounds to microseconds, which would make a small burst
// over shared memory 0.
func rounded(b result.Burst) result.Burst {
	for _, v := range []*float64{&b.P50, &b.P95, &b.Min, &b.Max} {
		*v = round(*v, 6)
	}
	return b
}

func round(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// verdict summarizes the checks of a row. expected is the required number of checks.
func (a *assembly) verdict(row int, op string, expected int) result.Verify {
	type place struct {
		rank, rep int
		rank.Trial
	}
	seen := map[place]bool{}
	var found []pool.Finding
	var places []place
	for r := range a.tracks {
		for _, c := range a.tracks[r].checks {
			at := place{r, c.Rep, c.Trial}
			if c.Row != row || c.Op != op || seen[at] {
				continue
			}
			seen[at] = true
			found, places = append(found, c.Finding), append(places, at)
		}
	}
	return pool.Sum(expected, found, func(i int) string {
		return fmt.Sprintf("the pool of rank %d, trial %d, burst %d", places[i].rank, places[i].Number, places[i].rep)
	})
}

// rest adds the measurements other than rows.
func (a *assembly) rest() error {
	m := &a.Measurement
	for i, f := range a.tracks[1].firsts {
		if others := a.tracks[0].firsts; a.tracks[1].setup.TwoSided && (i >= len(others) || !longer(f.Millis, others[i].Millis)) {
			continue
		}
		if len(f.Millis) > 0 {
			// Each operation has two sizes, in this order.
			row := rowFirst - i%firstSizes
			verify := a.verdict(row, f.Op, a.timedChecks(a.block.Timing.Trials))
			a.doubt(&verify, a.hurry(row, f.Op, f.Millis, nil))
			m.First = append(m.First, transfer.First{Op: f.Op, Bytes: f.Bytes, Millis: result.NewBurst(f.Millis), Verify: &verify})
		}
	}
	for _, op := range a.block.Ops {
		of := func(list []sustained) *sustained {
			if i := slices.IndexFunc(list, func(s sustained) bool { return s.Op == op }); i >= 0 {
				return &list[i]
			}
			return nil
		}
		serving, posting := of(a.tracks[0].sustained), of(a.tracks[1].sustained)
		if serving != nil && posting != nil && posting.Seconds > 0 && posting.Bytes > 0 {
			if a.tracks[1].setup.TwoSided && serving.Bursts != posting.Bursts {
				return fmt.Errorf("%s: rank 0 posted %d sustained bursts, but rank 1 posted %d", op, serving.Bursts, posting.Bursts)
			}
			gb := float64(posting.Bytes) / 1e9
			seconds := max(serving.Seconds, posting.Seconds)
			m.Sustained = append(m.Sustained, transfer.Sustained{
				Op: op, InFlight: posting.InFlight, Bursts: posting.Bursts, Bytes: posting.Bytes, Seconds: seconds,
				GBps: gb / seconds, CPU: (serving.CPU + posting.CPU) / gb, CPUPoster: posting.CPU / gb,
				Parts: posting.Parts, Verify: a.verdict(rowSustained, op, posting.Parts*transfer.Ranks),
			})
		}
		if v := a.verdict(rowReleased, op, transfer.Ranks); v.Checks > 0 {
			m.Released = append(m.Released, transfer.Released{Op: op, Verify: v})
		}
		if f, ok := fit(op, m.Rows); ok && f.Refuted(a.Limits) == "" {
			m.Fit = append(m.Fit, f)
		}
	}
	return nil
}

// judge sets the outcome of a case that both ranks completed, or whose data are wrong. Otherwise the
// shard, which knows why a rank did not complete, sets it.
func (a *assembly) judge(done bool) {
	m := &a.Measurement
	var verdicts []result.Verify
	complete := true
	a.tooFast()
	for i := range m.Rows {
		verdicts = append(verdicts, m.Rows[i].Verify)
		complete = complete && m.Rows[i].Complete
	}
	for _, s := range m.Sustained {
		verdicts = append(verdicts, s.Verify)
	}
	for _, r := range m.Released {
		verdicts = append(verdicts, r.Verify)
	}
	for _, f := range m.First {
		verdicts = append(verdicts, *f.Verify)
	}
	passed := true
	var wrong result.Reasons
	for _, v := range verdicts {
		passed = passed && v.Passed
		if wrong == nil {
			wrong = pool.Reasons(v)
		}
	}
	if wrong == nil {
		wrong = a.wrong()
	}
	switch {
	case wrong != nil, m.Lane == "" && !done:
	case m.Lane != a.block.Mode:
		wrong = result.Reasons{result.ReasonCheck.With("lane %s instead of %s", m.Lane, a.block.Mode)}
	case a.block.Handle != "" && m.Transport != a.block.Handle:
		wrong = result.Reasons{result.ReasonCheck.With("handle %s instead of %s", m.Transport, a.block.Handle)}
	}
	if wrong == nil && len(a.implausible) > 0 { // data on another lane may be faster than this one
		wrong = a.implausible[:1]
	}
	ops := len(a.block.Ops)
	whole := len(m.Rows) == len(a.Asked()) && len(m.First) == firstSizes*ops && len(m.Sustained) == ops && len(m.Released) == ops
	a.Outcome = rank.Judge(a.Outcome, wrong, done, complete && whole && passed)
}

// wrong returns a reason if a word of any burst was wrong, also of one without a time.
func (a *assembly) wrong() result.Reasons {
	var found []pool.Finding
	for _, t := range a.tracks {
		for _, c := range t.checks {
			found = append(found, c.Finding)
		}
	}
	return pool.Reasons(pool.Sum(0, found, func(int) string { return "a pool" }))
}

// doubt fails a verdict for reasons to doubt its times, if there are any.
func (a *assembly) doubt(v *result.Verify, bad result.Reasons) {
	a.implausible = append(a.implausible, bad...)
	v.Fail(bad)
}

// tooFast fails what took no time, and data that moved faster than their links allow. It judges medians and
// sustained rates, which readers compare.
func (a *assembly) tooFast() {
	m := &a.Measurement
	judge := func(v *result.Verify, what string, bytes int64, us float64) {
		// On every lane, all bytes leave the device of one rank and enter that of the other.
		a.doubt(v, plausible.Judge(a.Limits, plausible.Moved{Link: bytes, Network: bytes}, what, us))
	}
	for i := range m.Rows {
		r := &m.Rows[i]
		judge(&r.Verify, "fastest "+r.Op+" "+r.Kind, 0, 1e3*r.Latency.Min)
		judge(&r.Verify, r.Op+" "+r.Kind, r.ReqBytes*int64(r.Batch), 1e3*r.Latency.P50)
	}
	for _, f := range m.First {
		judge(f.Verify, "first "+f.Op, f.Bytes, 1e3*f.Millis.P50)
	}
	for i := range m.Sustained {
		s := &m.Sustained[i]
		judge(&s.Verify, s.Op+" sustained", s.Bytes, 1e6*s.Seconds)
	}
}

// fit fits the paged rows of an operation; ok is false if they do not determine the three parameters.
func fit(op string, rows []transfer.Row) (f transfer.Fit, ok bool) {
	var x [][]float64
	var us []float64
	for i := range rows {
		if r := &rows[i]; r.Op == op && r.Kind == transfer.KindPaged && r.Verify.Passed && r.Latency.P50 > 0 {
			x = append(x, []float64{1, float64(r.Descs * r.Batch), float64(r.ReqBytes) * float64(r.Batch)})
			us = append(us, r.Latency.P50*1e3)
		}
	}
	p, ok := measure.NonNegativeFit(x, us)
	if !ok {
		return f, false
	}
	f = transfer.Fit{Op: op, Alpha: p[0], Beta: p[1], Points: len(us)}
	if p[2] > 0 {
		f.GBps = 1 / p[2] / 1e3
	}
	for i, row := range x {
		predicted := p[0]*row[0] + p[1]*row[1] + p[2]*row[2]
		f.MaxPercent = max(f.MaxPercent, 100*math.Abs(predicted-us[i])/us[i])
	}
	return f, true
}
