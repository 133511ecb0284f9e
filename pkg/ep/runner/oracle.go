package runner

import (
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Names of the checks, as rows publish them.
const (
	CheckSource       = "source_decode" // every received row names its source
	CheckSourceSet    = "source_set"
	CheckMetadata     = "metadata"
	CheckMultiplicity = "multiplicity"
	CheckWeights      = "weights"
	CheckCounts       = "counts"
	CheckPayload      = "payload"
	CheckCombine      = "combine_values"
	CheckInputs       = "inputs_unchanged"
)

// checkNames lists the checks in the order in which rows list failures.
var checkNames = []string{
	CheckSource, CheckSourceSet, CheckMetadata, CheckMultiplicity, CheckWeights,
	CheckCounts, CheckPayload, CheckCombine, CheckInputs,
}

// Verdict is the oracle's verdict on one dispatch and combine on one rank.
type Verdict struct {
	Passed bool     `json:"passed"`
	Error  *float64 `json:"error"`            // of the combined values; null if not finite or not checked
	Failed []string `json:"failed,omitempty"` // names of the checks
	Rows   int      `json:"rows"`             // received; 0 if a row named no source
}

func (v *Verdict) fail(check string) {
	if !slices.Contains(v.Failed, check) {
		v.Failed = append(v.Failed, check)
	}
	v.Passed = false
}

func (v *Verdict) require(check string, ok bool) {
	if !ok {
		v.fail(check)
	}
}

// add merges another verdict into v.
func (v *Verdict) add(other Verdict) {
	for _, check := range other.Failed {
		v.fail(check)
	}
	if other.Error != nil && (v.Error == nil || *other.Error > *v.Error) {
		v.Error = other.Error
	}
}

// oracle holds what one rank must receive and get back.
type oracle struct {
	*arithmetic
	rank     int
	accepted *accepted // nil: results are not cached
}

// delivery is one row that a rank must receive: a token for a rank, or a token for one expert.
type delivery struct {
	token  int
	expert int32 // token-expert only
}

// received judges what arrived. It returns the transform of this rank's experts for each row, or
// nil if a row does not name its source.
func (o *oracle) received(d data, rx *Received) (by []workload.Affine, v Verdict, err error) {
	v.Passed = true
	rows := rx.rows()
	perRow := 1
	if o.Receive == TokenRank {
		perRow = o.trace.TopK
	}
	shaped := len(rx.Expert) == rows*perRow && (o.Receive == TokenExpert || len(rx.Weight) == len(rx.Expert))
	if !shaped {
		v.fail(CheckMetadata)
		return nil, v, nil
	}
	tokens, err := d.sources(o, rx)
	if err != nil {
		return nil, v, err
	}
	if slices.Contains(tokens, -1) {
		v.fail(CheckSource)
		return nil, v, nil
	}
	v.Rows = rows

	o.sourceSet(&v, rx, tokens)
	o.counts(&v, rx)
	right := !slices.ContainsFunc(tokens, func(t int64) bool { return t >= int64(o.trace.Tokens()) })
	if right {
		if right, err = d.payload(o, rx, tokens); err != nil {
			return nil, v, err
		}
	}
	v.require(CheckPayload, right)
	by = make([]workload.Affine, rows)
	for i, token := range tokens {
		by[i] = o.transform(&v, rx, i, int(token))
	}
	return by, v, nil
}

// transform judges the metadata of row i and returns the local experts' transform for it.
func (o *oracle) transform(v *Verdict, rx *Received, i, token int) workload.Affine {
	if o.Receive == TokenExpert {
		e := rx.Expert[i]
		v.require(CheckMetadata, o.here(e))
		return workload.Expert(max(e, 0))
	}
	k := o.trace.TopK
	ids, weights := rx.Expert[i*k:(i+1)*k], rx.Weight[i*k:(i+1)*k]
	want := map[int32]float32{}
	if token < o.trace.Tokens() {
		experts, parts := o.trace.Row(token)
		for slot, e := range experts {
			if o.here(e) {
				want[e] = parts[slot]
			}
		}
	}
	got := map[int32]float32{}
	var experts []int32
	var parts []float32
	for slot, e := range ids {
		if e < 0 {
			v.require(CheckMetadata, e == -1)
			continue
		}
		got[e] = weights[slot]
		experts, parts = append(experts, e), append(parts, weights[slot])
	}
	v.require(CheckMultiplicity, len(experts) == len(want))
	v.require(CheckMetadata, len(got) == len(experts) && len(got) == len(want))
	for e, w := range want {
		part, found := got[e]
		v.require(CheckMetadata, found)
		v.require(CheckWeights, math.Float32bits(part) == math.Float32bits(w))
	}
	return weighted(experts, parts)
}

// constants returns the transforms from received rows to constant rows.
func (o *oracle) constants(rx *Received) []workload.Affine {
	by := make([]workload.Affine, rx.rows())
	for i := range by {
		n := o.rank
		if o.Receive == TokenExpert {
			n = int(max(rx.Expert[i], 0))
		}
		by[i] = constantOf(int32(n))
	}
	return by
}

func (o *oracle) here(expert int32) bool {
	return expert >= 0 && int(expert) < o.trace.Experts && o.trace.ExpertRank(expert) == o.rank
}

// sourceSet compares the received rows with the expected ones.
func (o *oracle) sourceSet(v *Verdict, rx *Received, tokens []int64) {
	var want, got []delivery
	for token := range o.trace.Tokens() {
		experts, _ := o.trace.Row(token)
		for _, e := range experts {
			if !o.here(e) {
				continue
			}
			if o.Receive == TokenRank {
				want = append(want, delivery{token: token})
				break
			}
			want = append(want, delivery{token, e})
		}
	}
	for i, token := range tokens {
		d := delivery{token: int(token)}
		if o.Receive == TokenExpert {
			d.expert = rx.Expert[i]
		}
		got = append(got, d)
	}
	order := func(a, b delivery) int {
		if a.token != b.token {
			return a.token - b.token
		}
		return int(a.expert) - int(b.expert)
	}
	slices.SortFunc(want, order)
	slices.SortFunc(got, order)
	if !slices.Equal(want, got) {
		v.fail(CheckSourceSet)
		if o.Receive == TokenExpert {
			v.fail(CheckMultiplicity)
		}
	}
}

// counts compares the library's row counts, per local expert or per source rank.
func (o *oracle) counts(v *Verdict, rx *Received) {
	if rx.RankCounts != nil {
		v.require(CheckCounts, slices.Equal(o.fromRanks(), rx.RankCounts))
		return
	}
	first := o.rank * o.trace.ExpertsPerRank()
	want := make([]int32, o.trace.ExpertsPerRank())
	for _, e := range o.trace.Expert {
		if o.here(e) {
			want[int(e)-first]++
		}
	}
	v.require(CheckCounts, slices.Equal(want, rx.Counts))
}

// fromRanks returns how many tokens of each rank have an expert on this one.
func (o *oracle) fromRanks() []int32 {
	rows := make([]int32, o.trace.World)
	for rank := range rows {
		for i := range o.trace.RankTokens(rank) {
			if experts, _ := o.trace.Row(o.trace.First[rank] + i); slices.ContainsFunc(experts, o.here) {
				rows[rank]++
			}
		}
	}
	return rows
}

// combinedValues judges the result of combine for this rank's tokens. kind selects the rows that
// came back for them.
func (o *oracle) combinedValues(d data, v *Verdict, out accel.Ptr, kind messages) error {
	worst, err := d.combined(o, kind, out)
	if err != nil {
		return err
	}
	v.Error = finite(worst)
	v.require(CheckCombine, within(worst))
	return nil
}

// combinedError returns the largest error of the result of combine.
func (o *oracle) combinedError(out []uint16, m message) (worst float64) {
	hidden := len(o.pattern)
	for i := range o.trace.RankTokens(o.rank) {
		for c, want := range o.combined(o.trace.First[o.rank]+i, m) {
			worst = worse(worst, out[i*hidden+c], want)
		}
	}
	return worst
}

// compareOutputs returns the error of a chain's last output against a drained pair of the same
// rung.
func compareOutputs(got, reference []uint16) (worst float64) {
	for i, b := range reference {
		worst = worse(worst, got[i], numeric.FromBF16(b))
	}
	return worst
}
