package runner

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/plausible"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// track is what one rank recorded of a case.
type track struct {
	setup  *setup
	rows   map[int]row
	checks []check
}

// Assemble fills the document of a copy case from the records of its ranks; see shard.Assembler.
func Assemble(doc result.Document, streams []rank.Stream) error {
	d, ok := doc.(*copies.Document)
	if !ok {
		return fmt.Errorf("document of type %T for a copy case", doc)
	}
	block := copies.Of(&d.Identity.Case)
	test := copies.TestOf(block.Test)
	world := d.Identity.Case.World
	turns := block.Turns(world)
	tracks, _, done, err := rank.Tracks(world, streams, read)
	if err != nil {
		return err
	}
	d.Implementation.LibraryVersion = rank.LibraryVersion(streams)
	copying := &tracks[turns[0].One]
	if copying.setup == nil { // the records of a finished rank are lost
		d.Outcome = rank.Judge(d.Outcome, nil, done, false)
		return nil
	}
	m := &d.Measurement
	m.CheckedBy, m.Engines = copying.setup.Checked, copying.setup.Engines
	d.Limits = plausible.Limits(d.Identity.Case, streams)
	asked := copies.Asked(&d.Identity.Case)
	var bad result.Reasons
	for i := range asked {
		r := &asked[i]
		a := assembly{d, tracks, i, test.Flows(world, turns[i/len(block.Streams)%len(turns)]), rank.Counting(streams, trialsOf(i))}
		ok, reasons := a.row(r)
		if bad = append(bad, reasons...); ok {
			m.Rows = append(m.Rows, *r)
		} else { // its data may be wrong
			r.Verify = verdict(tracks, i, a.flows, test.Ranks == copies.All, 0)
		}
	}
	judge(d, done, asked, bad)
	return nil
}

// assembly makes a row from the records of the ranks.
type assembly struct {
	document *copies.Document
	tracks   []track
	number   int // of the row
	flows    []copies.Flow
	counts   map[int]int // see rank.Counting
}

// row fills a row, and returns reasons for impossible figures. It returns false without a time by the host's clock.
func (a *assembly) row(r *copies.Row) (ok bool, bad result.Reasons) {
	block := copies.Of(&a.document.Identity.Case)
	test, trials := copies.TestOf(block.Test), block.Timing.Trials
	w, ok := windowsOf(a.tracks, a.number, a.flows, test)
	if !ok {
		return false, nil
	}
	checked := w.timed[0].windows()
	w = w.counting(a.counts)
	measured := &w.timed[0]
	if test.Swap {
		return swapped(r, measured.Each, block.Timing, verdict(a.tracks, a.number, a.flows, false, checked))
	}
	var impossible result.Reasons
	r.Device, bad = a.clock("device", r, w.device(block.Timing.Reps), w.opposite.Device)
	r.Host, impossible = a.clock("host", r, w.host(block.Timing.Reps), w.opposite.Host)
	if bad = append(bad, impossible...); r.Host == nil {
		return false, bad
	}
	r.Both, r.Covered = together(r, block.Timing.Reps, measured.Spans, w.opposite.Spans), w.covered()
	both := !test.Both || test.Ranks != 2 || len(w.opposite.Host) == trials
	r.Complete = r.Host.Micros.N == trials && both && (r.Device != nil || len(measured.Device) == 0) && (r.Covered != nil) == test.Disturbed()
	r.Verify = verdict(a.tracks, a.number, a.flows, test.Ranks == copies.All, checked)
	bad = append(bad, measured.Victim.into(r, trials)...)
	r.Verify.Fail(bad)
	return true, bad
}

func read(s rank.Stream, t *track) error {
	t.rows = map[int]row{}
	return s.Read(rank.Kinds{
		kindSetup: rank.Last(&t.setup),
		kindRow:   rank.Index(t.rows, func(v row) int { return v.Row }),
		kindCheck: rank.Append(&t.checks),
	})
}

// clock returns the results of the windows of a row, in both directions, by the named clock; nil if there are
// none, or if one takes no time. It also returns reasons if a direction is faster than its link.
func (a *assembly) clock(name string, r *copies.Row, us, opposite []float64) (*copies.Clock, result.Reasons) {
	if len(us) == 0 {
		return nil, nil
	}
	if bad := plausible.Judge(nil, plausible.Moved{}, fmt.Sprintf("copy of %s by the clock of the %s", r.Name(), name), slices.Min(slices.Concat(us, opposite))); len(bad) > 0 {
		return nil, bad
	}
	limits, bytes := a.document.Limits, moved(copies.Of(&a.document.Identity.Case), r)
	c := &copies.Clock{Micros: result.NewBurst(us)}
	c.GBps, c.Nanos = r.Rate(c.Micros.P50), r.PerAccess(c.Micros.P50)
	bad := plausible.Judge(limits, bytes, "copy by "+name+" clock", c.Micros.Min)
	if len(opposite) > 0 {
		back := result.NewBurst(opposite)
		c.OppositeGBps = r.Rate(back.P50)
		bad = append(bad, plausible.Judge(limits, bytes, "opposite copy by "+name+" clock", back.Min)...)
	}
	return c, bad
}

// swapped fills a row with the times of the swaps of its windows, unless there are none or one is impossible.
func swapped(r *copies.Row, windows [][]float64, t plan.Repetitions, v result.Verify) (bool, result.Reasons) {
	us := slices.Concat(windows...)
	if len(us) == 0 {
		return false, nil
	}
	if bad := plausible.Judge(nil, plausible.Moved{}, "swap of "+r.Name(), slices.Min(us)); len(bad) > 0 {
		return false, bad
	}
	r.Latency, r.Verify = copies.NewLatency(r.Bytes, len(us), measure.Percentiles(us)), v
	r.Complete = len(us) == t.Reps*t.Trials
	return true, nil
}

// together returns the combined result of both ranks' windows of a row. each is the number of copies per window. It
// returns nil if the ranks did not copy at the same time.
func together(r *copies.Row, each int, one, other []span) *copies.Both {
	if len(one) == 0 || len(one) != len(other) {
		return nil
	}
	var overlaps, rates []float64
	for i, a := range one {
		b := other[i]
		whole := float64(max(1, max(a.End, b.End)-min(a.Begin, b.Begin)))
		overlaps = append(overlaps, max(0, float64(min(a.End, b.End)-max(a.Begin, b.Begin)))/whole)
		rates = append(rates, 2*float64(each)*float64(r.Bytes)/whole)
	}
	out := &copies.Both{Overlap: result.NewBurst(overlaps).P50}
	if out.Overlap >= result.MinCoverage {
		out.GBps = result.NewBurst(rates).P50
	}
	return out
}

// verdict summarizes the checks of a row: both sides of each flow, after each of its windows. With named, it says of which
// flow a word is wrong.
func verdict(tracks []track, number int, flows []copies.Flow, named bool, windows int) result.Verify {
	const sides = 2
	seen := map[check]bool{}
	var found []pool.Finding
	var places []string
	for _, of := range tracks {
		for _, c := range of.checks {
			at := c
			at.Finding = pool.Finding{}
			if c.Row != number || c.Way < 0 || c.Way >= len(flows) || seen[at] {
				continue
			}
			seen[at] = true
			place := "the source"
			if c.Destination {
				place = "the destination"
			}
			if named {
				place += " of " + flows[c.Way].String()
			}
			found, places = append(found, c.Finding), append(places, place)
		}
	}
	return pool.Sum(windows*sides*len(flows), found, func(i int) string { return places[i] })
}

// into adds what was measured of a victim, if there is one, to a row of so many windows. It returns what is wrong with it.
func (b *beside) into(r *copies.Row, trials int) (bad result.Reasons) {
	if b == nil || len(b.Copy) == 0 {
		return nil
	}
	if bad = b.implausible(r); len(bad) == 0 {
		r.Victim = b.figures(r.Device)
	}
	r.Complete = r.Complete && r.Victim != nil && len(b.Copy) == trials
	if b.Wrong != "" {
		bad = append(bad, result.ReasonCheck.With("%s", b.Wrong))
		r.Verify.Passed, r.Verify.Detail = false, b.Wrong
	}
	return bad
}

// implausible returns reasons for impossible times: a victim always takes some time.
func (b *beside) implausible(r *copies.Row) (bad result.Reasons) {
	for name, us := range map[string][]float64{"victim alone": b.Alone, "victim beside copies": b.Slowed, "copy beside a victim": b.Copy} {
		bad = append(bad, plausible.Judge(nil, plausible.Moved{}, name+" of "+r.Name(), slices.Min(us))...)
	}
	return bad
}

// figures returns the medians of the windows, and figures derived from them and a copy alone.
func (b *beside) figures(alone *copies.Clock) *copies.Victim {
	median := func(values []float64) float64 { return result.NewBurst(values).P50 }
	v := &copies.Victim{
		Units: int64(b.Units),
		Alone: result.NewBurst(b.Alone), Beside: result.NewBurst(b.Slowed), Coverage: median(b.Covered),
		CopyBeside: result.NewBurst(b.Copy), CopyCoverage: median(b.CopyCovered),
	}
	v.VictimFigures = v.Figures(alone)
	return v
}

// judge sets the outcome of a case that all ranks completed, or whose data are wrong. Otherwise the shard, which
// knows why a rank did not complete, sets it.
func judge(d *copies.Document, done bool, asked []copies.Row, bad result.Reasons) {
	m := &d.Measurement
	checked := len(m.Rows) == len(asked)
	for i := range m.Rows {
		checked = checked && m.Rows[i].Complete && m.Rows[i].Verify.Passed
	}
	var wrong result.Reasons
	for i := range asked { // also of rows without a time
		if wrong == nil {
			wrong = pool.Reasons(asked[i].Verify)
		}
	}
	if wrong == nil && len(bad) > 0 {
		// An impossible time may be replaced after an accident, a check that failed may not.
		i := slices.IndexFunc(bad, func(r result.Reason) bool { return r.Code != result.ReasonImplausible })
		wrong = result.Reasons{bad[max(i, 0)]}
	}
	d.Outcome = rank.Judge(d.Outcome, wrong, done, checked)
}

// moved returns the minimum bytes that a copy moves between two devices: of several copies at a time, those that the
// device moves that all of them have in common. Copies within one device may stay in its caches, and the links of the host
// have no known peak.
func moved(b *copies.Block, r *copies.Row) plausible.Moved {
	if t := copies.TestOf(b.Test); t.Ranks != 1 && !t.Memory && !t.Chase {
		return plausible.Moved{Link: r.Bytes * int64(max(1, r.Copies))}
	}
	return plausible.Moved{}
}
