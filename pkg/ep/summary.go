package ep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/fit"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/table"
)

// list is the JSON name of the headlines in a summary.
const list = "ep"

// headlineTokens is the headline's rung, in tokens per rank, if the ladder has it.
const headlineTokens = 64

// Headline is the summary of an EP case: its headline and its rungs.
type Headline struct {
	family.Repeats[*Headline] `json:"-"`

	CaseID   string          `json:"case_id"`
	SKU      string          `json:"sku"`
	Backend  string          `json:"backend"`
	Mode     string          `json:"mode"`
	Phase    string          `json:"phase"`
	World    int             `json:"ep"`
	Timing   string          `json:"timing_mode,omitempty"` // empty is eager
	Layout   string          `json:"layout,omitempty"`      // see Block.Layout
	Contract string          `json:"contract,omitempty"`    // empty is ContractLayout
	Tuning   string          `json:"tuning,omitempty"`
	Routing  string          `json:"routing"`
	Dispatch string          `json:"dispatch_dtype"`
	Dropped  []int           `json:"ladder_dropped,omitempty"`
	Headline int             `json:"headline"` // index into Rungs
	Rungs    []HeadlinePoint `json:"rungs"`
	MaxError float64         `json:"max_relative_error"`
	// Fits of the medians over the logical bytes of each GPU; null if there are too few rungs.
	DispatchFit *fit.Model `json:"dispatch_fit"`
	CombineFit  *fit.Model `json:"combine_fit"`
	Key         string     `json:"comparison_key"`
}

// HeadlinePoint is one rung. Times are microseconds, bandwidths GB/s for each GPU:
// total_logical_bytes / p50 / world.
type HeadlinePoint struct {
	TokensPerRank int                 `json:"tokens_per_rank"`
	PairPeriod    *result.Percentiles `json:"pair_period_us"`
	Roundtrip     *result.Percentiles `json:"roundtrip_us"`
	DispatchTime  *result.Percentiles `json:"dispatch_us"`
	CombineTime   *result.Percentiles `json:"combine_us"`
	TokenRate     float64             `json:"tokens_per_second_at_roundtrip_p50"`
	DispatchGBps  float64             `json:"dispatch_gbps_per_gpu"`
	CombineGBps   float64             `json:"combine_gbps_per_gpu"`
	RoundtripGBps float64             `json:"roundtrip_gbps_per_gpu"`
	Arithmetic    *result.Arithmetic  `json:"arithmetic_as_declared"`
}

// headline returns the time that a headline shows and whether it is the pair period; otherwise it
// is the roundtrip, a different quantity.
func (p HeadlinePoint) headline() (us *result.Percentiles, pair bool) {
	if p.PairPeriod != nil {
		return p.PairPeriod, true
	}
	return p.Roundtrip, false
}

// headlineOf returns the headline of a document. It excludes rows that are incomplete or failed.
func headlineOf(d *Document) *Headline {
	f := d.Factors()
	e := &Headline{
		CaseID: d.Identity.CaseID, SKU: d.Identity.CaseFactors.SKU, Backend: d.Implementation.Name,
		Mode: f.Mode, Phase: f.Phase, World: f.EP, Routing: f.Routing, Timing: Of(&d.Identity.Case).TimingMode, Layout: Of(&d.Identity.Case).Layout, Dispatch: d.Measurement.DispatchDType,
		Tuning: strings.Join(Of(&d.Identity.Case).Tuning.Words(), " "), Dropped: d.Workload.LadderDropped, Key: d.ComparisonKey,
	}
	if c := d.Identity.Case.Contract; c != ContractLayout {
		e.Contract = c
	}
	var dispatch, combine []fit.Point
	for _, r := range d.Measurement.Rows {
		if !r.Correctness.Passed {
			continue
		}
		p := HeadlinePoint{
			TokensPerRank: r.TokensPerRank,
			PairPeriod:    known(r.Components.PairPeriod),
			Roundtrip:     known(r.Components.Roundtrip),
			DispatchTime:  known(r.Components.Dispatch),
			CombineTime:   known(r.Components.Combine),
			Arithmetic:    r.Arithmetic,
		}
		if r.TokenRate != nil {
			p.TokenRate = r.TokenRate.P50
		}
		wire := r.Wire()
		p.DispatchGBps = wire.Dispatch.PerGPU(p50(p.DispatchTime), f.EP)
		p.CombineGBps = wire.Combine.PerGPU(p50(p.CombineTime), f.EP)
		p.RoundtripGBps = wire.Roundtrip.PerGPU(p50(p.Roundtrip), f.EP)
		e.Rungs = append(e.Rungs, p)
		dispatch = append(dispatch, fit.Point{Bytes: float64(wire.Dispatch.Total) / float64(f.EP), Us: p50(p.DispatchTime)})
		combine = append(combine, fit.Point{Bytes: float64(wire.Combine.Total) / float64(f.EP), Us: p50(p.CombineTime)})
		if r.TokensPerRank == headlineTokens {
			e.Headline = len(e.Rungs) - 1
		}
		if x := r.Correctness.MaxRelativeError; x != nil {
			e.MaxError = max(e.MaxError, *x)
		}
	}
	e.DispatchFit, e.CombineFit = table.Fitted(dispatch), table.Fitted(combine)
	if len(e.Rungs) > 0 && e.Rungs[e.Headline].TokensPerRank != headlineTokens {
		e.Headline = len(e.Rungs) / 2
	}
	return e
}

// Settle takes the largest error of the repeats.
func (e *Headline) Settle() {
	for _, o := range e.All() {
		e.MaxError = max(e.MaxError, o.MaxError)
	}
}

// period returns the median that a table shows as the headline, or 0.
func (e *Headline) period() float64 {
	if len(e.Rungs) == 0 {
		return 0
	}
	us, _ := e.Rungs[e.Headline].headline()
	return p50(us)
}

// sections returns the report sections of the headlines.
func sections(h family.Headlines) family.Sections {
	all := family.Of[*Headline](h, list)
	return family.Sections{
		Warnings:  []table.Section{arithmeticSection(all)},
		Headlines: []table.Section{overview(all)},
		Details:   []table.Section{ladder(all)},
	}
}

// keys are the columns that identify EP cases.
var keys = table.Text("SKU", "backend", "mode", "phase", "routing", "dispatch", "EP")

// form returns the mode with the layout, the timing mode, the contract and the tuning that the case names.
func (e *Headline) form() string {
	return strings.Join(strings.Fields(strings.Join([]string{e.Mode, e.Layout, e.Timing, e.Contract, e.Tuning}, " ")), " ")
}

func (e *Headline) key() []string {
	return []string{e.SKU, e.Backend, e.form(), e.Phase, e.Routing, e.Dispatch, strconv.Itoa(e.World)}
}

func overview(cases []*Headline) table.Section {
	t := &table.Table{Columns: slices.Concat(keys, table.Figures("tokens/rank"), table.Headline("pair period µs"),
		table.Figures("p99", "dispatch µs", "combine µs", "roundtrip µs", "tokens/s", "dispatch GB/s", "combine GB/s", "max error"), table.Text("not measured"))}
	for _, e := range cases {
		if len(e.Rungs) == 0 {
			continue
		}
		p := e.Rungs[e.Headline]
		us, pair := p.headline()
		mark := ""
		if !pair {
			mark = " (roundtrip)"
		}
		t.Rows = append(t.Rows, append(e.key(), strconv.Itoa(p.TokensPerRank),
			table.OrDash(p50(us))+e.Spread((*Headline).period)+mark, table.OrDash(p99(us)), table.OrDash(p50(p.DispatchTime)), table.OrDash(p50(p.CombineTime)),
			table.OrDash(p50(p.Roundtrip)), table.Rate(p.TokenRate), table.OrDash(p.DispatchGBps), table.OrDash(p.CombineGBps),
			strconv.FormatFloat(e.MaxError, 'g', 2, 64), e.dropped()))
	}
	return table.Section{
		Title: "Expert parallel dispatch and combine", Table: t, Keys: len(keys),
		Note: fmt.Sprintf("At %d tokens per rank, or at the middle of the ladder if that was not measured. Times are p50, except in the column p99. "+
			"The headline is the pair period of a chain. Dispatch, combine and roundtrip are fresh entries, of the slowest rank. "+
			"GB/s are logical bytes per GPU. tokens/s follow from the roundtrip.", headlineTokens),
	}
}

// arithmeticSection lists the rungs whose combine contradicts the declared arithmetic, although
// they pass the contract's gate.
func arithmeticSection(cases []*Headline) table.Section {
	t := &table.Table{Columns: slices.Concat(keys, table.Text("declared sum"), table.Figures("tokens/rank", "wrong values", "max error", "bound"))}
	for _, e := range cases {
		for _, p := range e.Rungs {
			a := p.Arithmetic
			if a == nil || a.Passed {
				continue
			}
			t.Rows = append(t.Rows, append(e.key(), a.Accumulation, strconv.Itoa(p.TokensPerRank),
				fmt.Sprintf("%d of %d", a.Wrong, a.Checked), errorFigure(a.MaxError), errorFigure(a.Bound)))
		}
	}
	return table.Section{
		Title: "Combine arithmetic is not as declared", Table: t, Keys: len(keys),
		Note: "These rows count as correct, since they are within the tolerance of the timing contract. Errors are those of an untimed combine of chosen rows, in units in the last place of bf16.",
	}
}

// errorFigure formats an error, which is null if it is not finite.
func errorFigure(e *float64) string {
	if e == nil {
		return "not finite"
	}
	return strconv.FormatFloat(*e, 'g', 3, 64)
}

// dropped describes the rungs that the backend does not support.
func (e *Headline) dropped() string {
	if len(e.Dropped) == 0 {
		return ""
	}
	return strings.Trim(fmt.Sprint(e.Dropped), "[]") + " tokens"
}

// known returns the percentiles of a component of which there are enough samples, or nil without any.
func known(c Component) *result.Percentiles {
	if c.Percentiles == nil {
		return nil
	}
	return new(c.Percentiles.Of(c.SampleCount))
}

func p50(q *result.Percentiles) float64 {
	if q == nil {
		return 0
	}
	return q.P50
}

func p99(q *result.Percentiles) float64 {
	if q == nil || q.P99 == nil {
		return 0
	}
	return *q.P99
}

func ladder(cases []*Headline) table.Section {
	t := &table.Table{Columns: slices.Concat(keys, table.Figures("tokens/rank", "pair period µs", "dispatch µs", "combine µs", "roundtrip µs",
		"p99", "tokens/s", "dispatch GB/s", "combine GB/s"))}
	sec := table.Section{Title: "Dispatch and combine at every rung", Table: t, Keys: len(keys), Folded: true}
	for _, e := range cases {
		if len(e.Rungs) == 0 {
			continue
		}
		c := table.Chart{
			Title: fmt.Sprintf("%s %s EP%d %s %s %s %s", e.SKU, e.Backend, e.World, e.form(), e.Phase, e.Routing, e.Dispatch),
			X:     "tokens per rank", Y: "tokens/s at roundtrip p50",
		}
		for _, p := range e.Rungs {
			t.Rows = append(t.Rows, append(e.key(), strconv.Itoa(p.TokensPerRank), table.OrDash(p50(p.PairPeriod)),
				table.OrDash(p50(p.DispatchTime)), table.OrDash(p50(p.CombineTime)), table.OrDash(p50(p.Roundtrip)), table.OrDash(p99(p.Roundtrip)),
				table.Rate(p.TokenRate), table.OrDash(p.DispatchGBps), table.OrDash(p.CombineGBps)))
			c.Labels = append(c.Labels, strconv.Itoa(p.TokensPerRank))
			c.Values = append(c.Values, p.TokenRate)
		}
		sec.Charts = append(sec.Charts, c)
	}
	return sec
}
