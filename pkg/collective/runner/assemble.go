package runner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/plausible"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// histogramBins is the number of bins of a published histogram.
const histogramBins = 32

// track is what one rank recorded of a case.
type track struct {
	setup   *setup
	samples map[window]sample
	// truncated has the records of truncated windows by the untimed window of their rung and pass.
	truncated map[window]truncated
	// arithmetic is nil until that pass has run.
	arithmetic *workload.ArithmeticVerdict
	repeated   []repeated // empty until that pass has run
	named      []named
	memory     []collective.Memory // by pass
}

// counting returns, for each timing mode, which repetition of each trial counts.
func counting(modes []string, streams []rank.Stream) map[string]map[int]int {
	by := map[string]map[int]int{}
	for _, mode := range modes {
		by[mode] = rank.Counting(streams, trialsOf(mode))
	}
	return by
}

// Assemble fills the document of a collective case from the records of its ranks; see
// shard.Assembler.
func Assemble(doc result.Document, streams []rank.Stream) error {
	d, ok := doc.(*collective.Document)
	if !ok {
		return fmt.Errorf("document of type %T for a collective case", doc)
	}
	sp, err := parse(d.Identity.Case)
	if err != nil {
		return err
	}
	tracks, whole, done, err := rank.Tracks(d.Identity.Case.World, streams, read)
	if err != nil {
		return err
	}
	d.Implementation.LibraryVersion = rank.LibraryVersion(streams)
	common, registered, err := agreed(tracks)
	if err != nil || common == nil { // no rank got this far: no rows, and the shard sets the outcome
		return err
	}
	d.Limits = plausible.Limits(d.Identity.Case, streams)
	d.Measurement.Path = common.Path
	d.Measurement.CheckedBy = common.CheckedBy
	d.Measurement.RegistrationHandle = registered
	d.Measurement.Memory = foldMemory(tracks)
	d.Measurement.FirstWindowAt = firstWindow(tracks)
	d.EntrySkew = sp.entrySkew(tracks)
	d.Workload.SizesDropped = append(d.Workload.SizesDropped, common.Dropped...)
	d.Workload.Excluded = append(d.Workload.Excluded, common.Excluded...)
	counts := counting(common.Modes, streams)
	for i, rung := range common.Rungs {
		rows, err := sp.rows(d, i, common, tracks, counts, whole)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			continue
		}
		d.Measurement.Rows = append(d.Measurement.Rows, rows...)
		if !slices.Contains(d.Workload.SizesMeasured, rung.Requested) {
			d.Workload.SizesMeasured = append(d.Workload.SizesMeasured, rung.Requested)
		}
	}
	if len(sp.block.Groups) > 0 {
		slices.SortStableFunc(d.Measurement.Rows, func(a, b collective.Row) int { // the placements of a group together
			return cmp.Or(cmp.Compare(a.Requested, b.Requested), cmp.Compare(a.Group[0], b.Group[0]))
		})
	}
	_, inexact := sp.arithmetic()
	if inexact && whole {
		d.Measurement.Arithmetic = sp.foldArithmetic(tracks)
	}
	judge(d, done, len(d.Measurement.Rows) == len(common.Rungs)*max(1, len(sp.block.Groups)) && (d.Measurement.Arithmetic != nil || !inexact))
	return nil
}

// agreed returns the common setup of the ranks, or nil if none recorded one. registered reports
// whether all ranks with a setup have registered their memory. Setups that differ are an error.
func agreed(tracks []track) (common *setup, registered bool, err error) {
	first := slices.IndexFunc(tracks, func(t track) bool { return t.setup != nil })
	if first < 0 {
		return nil, false, nil
	}
	common, registered = tracks[first].setup, true
	for i, t := range tracks {
		if t.setup == nil {
			continue
		}
		if !t.setup.agrees(common) {
			return nil, false, fmt.Errorf("ranks %d and %d recorded different setups", first, i)
		}
		registered = registered && t.setup.Registered
	}
	return common, registered, nil
}

// firstWindow returns when the last rank began its first window, or nil if none did.
func firstWindow(tracks []track) *string {
	var last time.Time
	for _, t := range tracks {
		var first time.Time
		for _, s := range t.samples {
			if first.IsZero() || s.Began.Before(first) {
				first = s.Began
			}
		}
		if first.After(last) {
			last = first
		}
	}
	if last.IsZero() {
		return nil
	}
	return new(instant(last))
}

func instant(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// entrySkew summarizes how far apart the ranks that took part entered each timed window.
func (sp spec) entrySkew(tracks []track) *result.EntrySkew {
	windows := map[window][]rank.Entry{}
	for r, t := range tracks {
		for w, s := range t.samples {
			if w.Trial < sp.block.Measure.Trials && !sp.form(w.Pair).Idle(r) {
				windows[w] = append(windows[w], s.Entry)
			}
		}
	}
	active := len(tracks)
	if sp.op.Pairwise() {
		active = 2
	}
	return rank.EntrySkew(sp.Nodes, active, windows)
}

// agrees compares the values that must be the same on all ranks.
func (s setup) agrees(o *setup) bool {
	strip := func(rungs []rungRecord) []rungRecord {
		out := slices.Clone(rungs)
		for i := range out {
			out[i].Checks, out[i].Untimed = 0, 0
		}
		return out
	}
	a, b := s, *o
	a.Rungs, b.Rungs = strip(a.Rungs), strip(b.Rungs)
	a.Registered, b.Registered = false, false
	return reflect.DeepEqual(a, b)
}

func read(s rank.Stream, t *track) error {
	t.samples, t.truncated = map[window]sample{}, map[window]truncated{}
	err := s.Read(rank.Kinds{
		kindSetup:      rank.Last(&t.setup),
		kindArithmetic: rank.Last(&t.arithmetic),
		kindRepeatable: rank.Each(func(v []repeated) error {
			t.repeated = v
			return nil
		}),
		collective.KindSample: rank.Each(func(v sample) error {
			if _, twice := t.samples[v.Window]; twice {
				return fmt.Errorf("window %+v is recorded twice", v.Window)
			}
			t.samples[v.Window] = v
			return nil
		}),
		kindMemory: rank.Each(func(v collective.Memory) error {
			t.memory = append(t.memory, v)
			return nil
		}),
		kindNamed: rank.Each(func(v []named) error {
			t.named = v
			return nil
		}),
		kindTruncated: rank.Each(func(v truncated) error {
			t.truncated[v.Window] = v
			return nil
		}),
	})
	if err == nil && t.setup == nil && len(t.samples) > 0 {
		err = errors.New("samples without a setup")
	}
	return err
}

// rows makes the rows of a rung, the one at index at: one, or one for each group. A group without windows has none.
func (sp spec) rows(d *collective.Document, at int, common *setup, tracks []track, counts map[string]map[int]int, everyRank bool) (rows []collective.Row, err error) {
	rung := common.Rungs[at]
	groups := sp.block.Groups
	if len(groups) == 0 {
		groups = [][]int{nil}
	}
	for _, group := range groups {
		members := tracks
		if group != nil {
			members = nil
			for _, r := range group {
				members = append(members, tracks[r])
			}
		}
		row, seen, err := sp.row(at, rung, common, members, counts, everyRank)
		if err != nil {
			return nil, err
		}
		if !seen {
			continue
		}
		row.Group = group
		sp.gate(&row, rung, d.Limits)
		used := usedFor(rung, members)
		row.Algorithm, row.CTAs, row.Repeatable = used.Algorithm, max(0, used.CTAs), foldRepeatable(rung, members, group)
		if row.Key, err = collective.RowKey(d.ComparisonKey, &row); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// row makes the row of a rung, the one at index at. seen reports whether all ranks have recorded one
// of its windows. counts is from counting; it selects samples, not verdicts: all of these count.
func (sp spec) row(at int, r rungRecord, common *setup, tracks []track, counts map[string]map[int]int, everyRank bool) (row collective.Row, seen bool, err error) {
	row = collective.Row{
		Requested: r.Requested, Bytes: r.Bytes, Count: r.Count, Placement: r.Placement, Slots: r.Slots,
		Complete: everyRank,
		Check:    collective.Check{Passed: everyRank, ToleranceULP: common.Tolerance},
	}
	if sp.op.Pairwise() {
		row.Src, row.Dst = &r.Pair.Src, &r.Pair.Dst
	}
	fresh, ended := map[bool]float64{}, time.Time{} // fresh is of operations in graphs, or of the others
	for _, mode := range common.Modes {
		var perRank [][]float64 // [rank][sample]
		var enqueues []float64  // by window
		for trial := range sp.block.Measure.Trials {
			w := window{Requested: r.Requested, Placement: r.Placement, Pair: r.Pair, Mode: mode, Trial: trial}
			var all [][]float64
			var enqueue float64
			for w.Repeat = range result.MaxRepeats + 1 {
				of, us := sp.collect(&row.Check, w, at, tracks)
				if w.Repeat == counts[mode][trial] {
					all, enqueue = of, us
				}
			}
			if all == nil || !everyRank {
				row.Complete = false
				continue
			}
			if perRank == nil {
				perRank = make([][]float64, len(all))
			}
			for i, us := range all {
				perRank[i] = append(perRank[i], sp.counted(mode, us)...)
			}
			enqueues = append(enqueues, enqueue)
		}
		if slices.Contains(untimedModes(common.Modes), mode) {
			w := window{Requested: r.Requested, Placement: r.Placement, Pair: r.Pair, Mode: mode, Trial: sp.block.Measure.Trials}
			if all, _ := sp.collect(&row.Check, w, at, tracks); all == nil {
				row.Complete = false
			} else {
				for i := range tracks {
					if began := tracks[i].samples[w].Began; began.After(ended) { // the untimed window follows the timed ones
						ended = began
					}
				}
			}
			us, complete := sp.collectTruncated(&row.Check, w, r.Truncated, tracks)
			fresh[mode == vocab.Graph], row.Complete = us, row.Complete && complete
		}
		if perRank == nil {
			continue
		}
		if us := impossible(perRank); us != nil {
			seen = true
			row.Check.Reasons = append(row.Check.Reasons, plausible.Judge(nil, plausible.Moved{}, mode, *us)...)
			continue
		}
		timing, err := sp.timing(r.Bytes, perRank)
		if err != nil {
			return row, false, fmt.Errorf("%d bytes %s %s: %w", r.Requested, r.Placement, mode, err)
		}
		seen = true
		timing.Enqueue = measure.Percentile(enqueues, 50)
		*row.Timing(mode) = timing
	}
	for _, mode := range common.Modes {
		us := fresh[mode == vocab.Graph]
		if t := *row.Timing(mode); t != nil && tooFast(common.CheckedBy, t.Percentiles.P50, us) {
			row.Check.Reasons = append(row.Check.Reasons, result.ReasonImplausible.With("%s, an operation takes %.6g us, but %.6g us with new data", mode, t.Percentiles.P50, us))
		}
	}
	if !ended.IsZero() {
		row.EndedAt = instant(ended)
	}
	row.Check.Passed = row.Check.Passed && (row.Check.Checked > 0 || r.Requested == 0) && row.Check.Wrong == 0 && len(row.Check.Reasons) == 0
	return row, seen, nil
}

// counted returns the samples of a window that figures are made of.
func (sp spec) counted(mode string, us []float64) []float64 {
	if mode != vocab.PerIteration {
		return us
	}
	return us[min(sp.block.Measure.Skip, len(us)):]
}

// collect returns the samples of one window by rank, without idle ranks, and the enqueueing time of the
// slowest rank. all is nil if a rank has not recorded the window. collect adds the recorded verdicts to
// check, and fails it if a verdict is missing or compares another number of elements than required.
func (sp spec) collect(check *collective.Check, w window, at int, tracks []track) (all [][]float64, enqueue float64) {
	all = make([][]float64, 0, len(tracks))
	present, form := 0, sp.form(w.Pair)
	for r, t := range tracks {
		s, ok := t.samples[w]
		if !ok {
			continue
		}
		present++
		if !form.Idle(r) {
			all = append(all, s.US)
		}
		enqueue = max(enqueue, s.Enqueue)
		want := t.setup.Rungs[at].Checks
		if w.Trial == sp.block.Measure.Trials {
			want = t.setup.Rungs[at].Untimed
		}
		if s.Check == nil || s.Check.Checked != want {
			check.Passed = false
			continue
		}
		check.Checked += s.Check.Checked
		check.Wrong += s.Check.Wrong
	}
	if present < len(tracks) {
		return nil, 0
	}
	return all, enqueue
}

// collectTruncated adds the verdicts of truncated windows to check. w is the untimed window of their rung
// and pass, and windows their minimum number on each rank. fresh is the minimum time of operations with
// new data. complete reports whether each rank checked that number of windows.
func (sp spec) collectTruncated(check *collective.Check, w window, windows int, tracks []track) (fresh float64, complete bool) {
	fresh, complete = math.Inf(1), true
	for r, t := range tracks {
		v := t.truncated[w]
		complete = complete && v.Windows >= windows
		check.Checked += v.Check.Checked
		check.Wrong += v.Check.Wrong
		if !sp.form(w.Pair).Idle(r) {
			fresh = min(fresh, v.Fresh)
		}
	}
	if math.IsInf(fresh, 1) {
		fresh = 0
	}
	return fresh, complete
}

// timing reduces the samples of the ranks to the slowest rank of each sample.
func (sp spec) timing(bytes int64, perRank [][]float64) (*collective.Timing, error) {
	var err error
	over := func(reduce measure.Reduction) (us []float64) {
		us, err = measure.OverRanks(perRank, reduce)
		return us
	}
	slowest, fastest, mean := over(measure.Max), over(measure.Min), over(measure.Mean)
	if err != nil { // the ranks have different numbers of samples; the same for all three
		return nil, err
	}
	t := &collective.Timing{
		Percentiles: measure.Percentiles(slowest),
		Min:         slices.Min(slowest),
		Mean:        measure.Mean(slowest),
		Max:         slices.Max(slowest),
		SampleCount: len(slowest),
		RankMin:     measure.Percentile(fastest, 50),
		RankMean:    measure.Percentile(mean, 50),
	}
	t.AlgBW = AlgBW(bytes, t.Percentiles.P50) * collective.AlgFactor(sp.op.String(), sp.World)
	t.BusBW = t.AlgBW * sp.op.BusFactor(sp.World)
	for _, samples := range perRank {
		t.RankP50 = append(t.RankP50, measure.Percentile(samples, 50))
	}
	t.Histogram = new(measure.Histogram(slowest, histogramBins))
	return t, nil
}

// judge sets the outcome of a case that all ranks completed or whose data are wrong. In other cases the
// shard sets it, since only the shard knows why a rank did not complete.
func judge(d *collective.Document, done, all bool) {
	rows := d.Measurement.Rows
	first := func(f func(collective.Row) bool) int { return slices.IndexFunc(rows, f) }
	var wrong result.Reasons
	if first(func(r collective.Row) bool { return r.Check.Wrong > 0 }) >= 0 {
		wrong = result.Reasons{{Code: result.ReasonSemantics}}
	} else if a := d.Measurement.Arithmetic; a != nil && !a.Passed {
		wrong = a.Reasons
		all = false
	}
	if i := first(func(r collective.Row) bool { return len(r.Check.Reasons) > 0 }); len(wrong) == 0 && i >= 0 {
		wrong = rows[i].Check.Reasons[:1]
	}
	unchecked := first(func(r collective.Row) bool { return !r.Complete || !r.Check.Passed })
	d.Outcome = rank.Judge(d.Outcome, wrong, done, all && len(rows) > 0 && unchecked < 0)
}
