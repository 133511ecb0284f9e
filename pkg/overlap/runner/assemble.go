package runner

import (
	"cmp"
	"fmt"
	"slices"

	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plausible"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// track is what one rank recorded of a case.
type track struct {
	setup   *setup
	samples map[turn]sample
}

// Assemble fills the document of an overlap case from the records of its ranks; see shard.Assembler.
func Assemble(doc result.Document, streams []rank.Stream) error {
	d, ok := doc.(*overlap.Document)
	if !ok {
		return fmt.Errorf("document of type %T for an overlap case", doc)
	}
	c := &d.Identity.Case
	op, _, t, err := parse(c)
	if err != nil {
		return err
	}
	tracks, whole, done, err := rank.Tracks(c.World, streams, read)
	if err != nil {
		return err
	}
	d.Implementation.LibraryVersion = rank.LibraryVersion(streams)
	m := &d.Measurement
	if err := settle(d, tracks); err != nil {
		return err
	}
	for i, t := range tracks {
		if t.setup == nil {
			continue
		}
		m.CommunicationPath, m.CheckedBy = t.setup.Path, t.setup.CheckedBy
		m.SharedProcessor = m.SharedProcessor || t.setup.SharedProcessor
		if p := t.setup.Program; m.Program != nil && (p == nil || *p != *m.Program) {
			return fmt.Errorf("rank %d ran a different program than earlier ranks", i)
		} else if p != nil {
			m.Program = p
		}
	}
	asked := overlap.Asked(c)
	var implausible result.Reasons
	if whole {
		d.Limits = plausible.Limits(*c, streams)
		f := collective.Form{Op: op, Type: t, World: c.World}
		for i := range asked {
			a := assembly{block: overlap.Of(c), number: i, asked: &asked[i], form: f, tracks: tracks, counts: rank.Counting(streams, trialsOf(i)), limits: d.Limits}
			whole := a.row()
			a.verify(&asked[i].Verify)
			if whole {
				a.gate()
				m.Rows = append(m.Rows, asked[i])
			}
			implausible = append(implausible, a.implausible...)
		}
		d.EntrySkew = entrySkew(c.Nodes, tracks)
	}
	judge(d, done, asked, implausible)
	return nil
}

// settle replaces compute auto in the document and its comparison key by what the ranks chose. It fails if they chose differently.
func settle(d *overlap.Document, tracks []track) (err error) {
	computes := ""
	for of, t := range tracks {
		switch {
		case t.setup == nil:
		case computes == "":
			computes = t.setup.Compute
		case computes != t.setup.Compute:
			return fmt.Errorf("rank %d computes with %s, but earlier ranks compute with %s: install the same libraries for all ranks", of, t.setup.Compute, computes)
		}
	}
	if computes == "" {
		return nil
	}
	d.Measurement.Compute = computes
	d.ComparisonKey, err = result.ComparisonKey(result.Settled(d), d.Provenance.Environment)
	return err
}

func read(s rank.Stream, t *track) error {
	t.samples = map[turn]sample{}
	return s.Read(rank.Kinds{
		kindSetup:  rank.Last(&t.setup),
		kindSample: rank.Index(t.samples, func(v sample) turn { return v.turn }),
	})
}

// entrySkew returns how far apart the gates of the ranks opened.
func entrySkew(nodes int, tracks []track) *result.EntrySkew {
	windows := map[turn][]rank.Entry{}
	for _, t := range tracks {
		for at, s := range t.samples {
			windows[at] = append(windows[at], s.Entry)
		}
	}
	return rank.EntrySkew(nodes, len(tracks), windows)
}

// assembly makes a row from the samples of all ranks.
type assembly struct {
	block  *overlap.Block
	number int
	asked  *overlap.Row
	form   collective.Form
	tracks []track
	counts map[int]int // which repetition of an iteration counts; see rank.Counting
	limits []result.Limit
	wrong  string // first error
	// implausible lists impossible times.
	implausible result.Reasons
}

// row fills the row. It returns false if a contender has no iteration with samples of all ranks, or a sample that is not positive.
func (a *assembly) row() bool {
	r := a.asked
	if a.block.Form != overlap.Beside {
		r.WholeCompute, r.WholeCommunication = new(result.Burst), new(result.Burst)
	}
	r.Complete = true
	times := r.Times()
	for _, name := range overlap.Contenders(a.block.Form) {
		samples := a.samples(name)
		r.Complete = r.Complete && len(samples) == a.block.Timing.Iterations
		if len(samples) == 0 || !a.positive(name, samples) {
			return false
		}
		*times[name] = result.NewBurst(worst(samples, func(s *sample) float64 { return s.US }))
		if name == overlap.Together {
			r.ComputeInside = result.NewBurst(worst(samples, func(s *sample) float64 { return s.Compute }))
			r.CommunicationInside = result.NewBurst(worst(samples, func(s *sample) float64 { return s.Communication }))
			r.ComputeCoverage = coverage(samples, func(s *sample) float64 { return s.ComputeCovered / s.Compute })
			r.CommunicationCoverage = coverage(samples, func(s *sample) float64 { return s.CommunicationCovered / s.Communication })
		}
	}
	r.Figures = r.Derive(a.block.Form, a.form.World)
	return true
}

// positive reports whether all samples of a contender are positive. Otherwise it sets a.implausible.
func (a *assembly) positive(name string, samples [][]sample) bool {
	for _, ranks := range samples {
		for i := range ranks {
			s := &ranks[i]
			if s.US > 0 && (name != overlap.Together || s.Compute > 0 && s.Communication > 0) {
				continue
			}
			a.implausible = plausible.Judge(nil, plausible.Moved{}, a.named(name), min(s.US, s.Compute, s.Communication))
			return false
		}
	}
	return true
}

// gate fails a row in which a median is too short for the bytes that had to move. Single samples can be shorter, since the peers of
// a rank that opens its gate late may have sent already.
func (a *assembly) gate() {
	r := a.asked
	moved := plausible.Moved{Link: a.form.LinkBytes(a.form.Extent(r.Bytes))}
	if a.block.Form == overlap.Beside {
		moved.Link *= int64(r.Communications)
	}
	times := r.Times()
	for _, name := range overlap.Contenders(a.block.Form) {
		if communicates(name) {
			a.implausible = append(a.implausible, plausible.Judge(a.limits, moved, a.named(name), times[name].P50)...)
		}
	}
	if len(a.implausible) > 0 && r.Verify.Passed {
		r.Verify.Passed, r.Verify.Detail = false, a.implausible.String()
	}
}

// named returns the name of a contender's time in reasons.
func (a *assembly) named(contender string) string { return contender + " of " + a.asked.Name() }

// samples returns the samples of a contender by iteration and rank, without iterations that a rank lacks.
func (a *assembly) samples(contender string) (all [][]sample) {
	for i := range a.block.Timing.Iterations {
		var ranks []sample
		for _, t := range a.tracks {
			if s, ok := t.samples[turn{a.number, i, contender, a.counts[i]}]; ok {
				ranks = append(ranks, s)
			}
		}
		if len(ranks) == len(a.tracks) {
			all = append(all, ranks)
		}
	}
	return all
}

// worst returns the maximum over ranks, by iteration.
func worst(samples [][]sample, value func(*sample) float64) (out []float64) {
	for _, ranks := range samples {
		largest := 0.0
		for i := range ranks {
			largest = max(largest, value(&ranks[i]))
		}
		out = append(out, largest)
	}
	return out
}

// coverage returns the median over the iterations of the minimum over ranks.
func coverage(samples [][]sample, part func(*sample) float64) float64 {
	var parts []float64
	for _, ranks := range samples {
		smallest := 1.0
		for i := range ranks {
			smallest = min(smallest, part(&ranks[i]))
		}
		parts = append(parts, smallest)
	}
	return result.NewBurst(parts).P50
}

// verify summarizes the checks of a row's samples, repetitions included. Each check must have compared all elements that its contender computes or
// delivers.
func (a *assembly) verify(v *overlap.Verify) {
	v.Passed = true
	for of, t := range a.tracks {
		products, communicated := a.elements(of)
		for _, contender := range overlap.Contenders(a.block.Form) {
			for i := range a.block.Timing.Iterations * (result.MaxRepeats + 1) {
				i, repeat := i/(result.MaxRepeats+1), i%(result.MaxRepeats+1)
				s, ok := t.samples[turn{a.number, i, contender, repeat}]
				if !ok {
					continue
				}
				where := fmt.Sprintf("of rank %d in %s, iteration %d", of, contender, i)
				if computes(contender) {
					a.sum(v, s.Products, products, "elements of products "+where, &v.Products, &v.WrongProducts)
				}
				if communicates(contender) {
					a.sum(v, s.Communicated, communicated, "communicated elements "+where, &v.Communicated, &v.WrongCommunicated)
				}
			}
		}
	}
	if v.Detail = a.wrong; v.Detail == "" {
		v.Detail = fmt.Sprintf("%d checks, %d elements of products, %d communicated", v.Checks, v.Products, v.Communicated)
	}
}

// sum adds a check, which must have compared the given number of elements.
func (a *assembly) sum(v *overlap.Verify, c *workload.Verdict, elements int64, what string, checked, wrong *int64) {
	bad := ""
	switch {
	case c == nil || c.Checked != elements:
		bad = fmt.Sprintf("not all of the %d %s were compared", elements, what)
	case c.Wrong > 0:
		bad = fmt.Sprintf("%d of %d %s are wrong, the first is number %d", c.Wrong, c.Checked, what, c.First)
	}
	if c != nil {
		v.Checks++
		*checked += c.Checked
		*wrong += c.Wrong
	}
	if bad != "" {
		v.Passed, a.wrong = false, cmp.Or(a.wrong, bad)
	}
}

// elements returns the number of elements of a rank's products, and the number of elements that it receives, in a window.
func (a *assembly) elements(of int) (products, communicated int64) {
	r := a.asked
	products = r.ProductM * r.ProductN
	if a.block.Form != overlap.Beside {
		return products, r.ProductM * r.ProductK
	}
	for _, region := range a.form.Outputs(a.form.Extent(r.Bytes), of) {
		communicated += region.Count * int64(r.Communications)
	}
	return products * int64(r.Products), communicated
}

// judge sets the outcome of a case that all ranks completed or whose data are wrong. In other cases the shard sets it, since only
// the shard knows why a rank did not complete.
func judge(d *overlap.Document, done bool, asked []overlap.Row, implausible result.Reasons) {
	rows := d.Measurement.Rows
	var wrong result.Reasons
	for i := range asked { // also of rows without times of all contenders
		if v := &asked[i].Verify; v.WrongProducts > 0 || v.WrongCommunicated > 0 {
			wrong = append(wrong, result.ReasonCheck.With("%d elements of products, %d communicated", v.WrongProducts, v.WrongCommunicated))
		}
	}
	wrong = append(wrong, implausible...)
	checked := len(rows) == len(asked) && !slices.ContainsFunc(rows, func(r overlap.Row) bool { return !r.Complete || !r.Verify.Passed })
	d.Outcome = rank.Judge(d.Outcome, wrong[:min(1, len(wrong))], done, checked)
}
