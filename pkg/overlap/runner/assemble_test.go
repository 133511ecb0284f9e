package runner

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// streams are what two ranks leave that measure a case without a fault. edit may change each
// sample.
func streams(t *testing.T, c *plan.Case, edit func(rank int, s *sample)) (all []rank.Stream) {
	t.Helper()
	op, _, dtype, err := parse(c)
	require.NoError(t, err)
	form := collective.Form{Op: op, Type: dtype, World: c.World}
	asked := overlap.Asked(c)
	for r := range c.World {
		s := rank.Stream{Rank: r, Done: true, Facts: &rank.Facts{DeviceProduct: "NVIDIA H200"}}
		s.Device = &result.RankDevice{Rank: r, Limits: []result.Limit{{Of: result.LimitLink, GBps: 500, Sum: "18 x 26.562 nvlink", Source: "nvml"}}}
		put := func(kind string, v any) {
			data, err := json.Marshal(v)
			require.NoError(t, err)
			s.Records = append(s.Records, rank.Record{Kind: kind, Data: data})
		}
		put(kindSetup, setup{Path: "native", CheckedBy: "device", Program: resulttest.OverlapProgram(c)})
		for i := range asked {
			a := assembly{block: overlap.Of(c), asked: &asked[i], form: form}
			products, communicated := a.elements(r)
			for n := range overlap.Of(c).Timing.Iterations {
				for _, name := range overlap.Contenders(overlap.Of(c).Form) {
					v := sample{
						turn: turn{Row: i, Iteration: n, Contender: name}, US: 100, Compute: 100, Communication: 100, ComputeCovered: 100, CommunicationCovered: 100,
						Products: &workload.Verdict{Checked: products, First: -1}, Communicated: &workload.Verdict{Checked: communicated, First: -1},
					}
					edit(r, &v)
					put(kindSample, v)
				}
			}
		}
		all = append(all, s)
	}
	return all
}

func assembled(t *testing.T, c plan.Case, edit func(rank int, s *sample)) *overlap.Document {
	t.Helper()
	d := resulttest.New(c, resulttest.Attempt()).(*overlap.Document)
	require.NoError(t, Assemble(d, streams(t, &c, edit)))
	d.Topology.DeviceProduct = "NVIDIA H200"
	require.NoError(t, result.Validate(d))
	return d
}

// A window that takes no time is no measurement, of whichever rank and side it is, although
// all results are right.
func TestATimeOfZeroIsInvalid(t *testing.T) {
	for _, form := range overlap.Forms() {
		c := plantest.Overlap("host", form, 2)
		require.Equal(t, result.Success, assembled(t, c, func(int, *sample) {}).Outcome.Status)
		for name, edit := range map[string]func(s *sample){
			overlap.Serial:   func(s *sample) { s.US = 0 },
			overlap.Together: func(s *sample) { s.Communication = 0 },
		} {
			d := assembled(t, c, func(rank int, s *sample) {
				if rank == 1 && s.Row == 1 && s.Iteration == 1 && s.Contender == name {
					edit(s)
				}
			})
			require.Equal(t, result.Invalid, d.Outcome.Status)
			require.Equal(t, "implausible: "+name+" of 16384 bytes takes 0 us", d.Outcome.Reasons.String())
			require.Len(t, d.Measurement.Rows, 1)
		}
	}
}

// Wrong data count, also in a row that lacks a contender since a rank died.
func TestWrongDataOfAPartialRow(t *testing.T) {
	c := plantest.Overlap("host", overlap.Beside, 2)
	all := streams(t, &c, func(rank int, s *sample) {
		if rank == 1 && s.Contender == overlap.Contenders(overlap.Beside)[0] {
			s.Products.Wrong, s.Communicated.Wrong = 5, 5
		}
	})
	for r := range all {
		all[r].Done, all[r].Records = false, all[r].Records[:2] // its setup and the first sample
	}
	d := resulttest.New(c, resulttest.Attempt()).(*overlap.Document)
	require.NoError(t, Assemble(d, all))
	require.Empty(t, d.Measurement.Rows)
	require.Equal(t, result.Invalid, d.Outcome.Status)
	require.Equal(t, result.ReasonCheck, d.Outcome.Code())
}

// A communication that is faster than the links of its devices did nothing, whatever its
// check says.
func TestNothingIsFasterThanItsLink(t *testing.T) {
	for form, why := range map[string]string{
		overlap.Beside:         "of 0.01 us for 8192 bytes or more by link, 819.2 of at most 500 GBps", // two of them
		overlap.LinearRotation: "of 0.01 us for 8192 bytes or more by link, 819.2 of at most 500 GBps",
	} {
		c := plantest.Overlap("host", form, 2, func(c *plan.Case) {
			if overlap.Of(c).Sizes = []int64{8192}; form != overlap.Beside {
				overlap.Of(c).Sizes = []int64{16384}
			}
		})
		d := assembled(t, c, func(_ int, s *sample) {
			if s.Contender == overlap.OnlyCommunication {
				s.US, s.Communication, s.CommunicationCovered = 0.01, 0.01, 0
			}
		})
		require.Equal(t, result.Invalid, d.Outcome.Status)
		require.Equal(t, "implausible: communication of "+d.Measurement.Rows[0].Name()+" "+why, d.Outcome.Reasons.String())
		require.False(t, d.Measurement.Rows[0].Verify.Passed)
		require.Len(t, d.Limits, 1)
	}
}

// The document says which program communicated. Ranks that run different ones are told apart, and
// a success without one is refused.
func TestProgramOfSteps(t *testing.T) {
	c := plantest.Overlap("host", overlap.LinearRotation, 2)
	d := assembled(t, c, func(int, *sample) {})
	require.Equal(t, resulttest.OverlapProgram(&c), d.Measurement.Program)
	d.Measurement.Program = nil
	require.ErrorContains(t, result.Validate(d), "measurement.program is missing")

	left := streams(t, &c, func(int, *sample) {})
	left[1].Records[0].Data = bytes.Replace(left[1].Records[0].Data, []byte(`"sha256":"0`), []byte(`"sha256":"1`), 1)
	err := Assemble(resulttest.New(c, resulttest.Attempt()), left)
	require.EqualError(t, err, "rank 1 ran a different program than earlier ranks")
}

// A computation that waits for nothing cannot be too early.
func TestIdle(t *testing.T) {
	early := func(form string) string {
		return Measurer.Idle(rank.Fault{Kind: FaultEarly, At: rank.FaultAtStart}, &plan.Case{Family: overlap.Name, Block: &overlap.Block{Form: form}})
	}
	require.Equal(t, "products of form beside do not depend on the communication; inject it into a linear layer", early(overlap.Beside))
	require.Empty(t, early(overlap.LinearRotation))
}

func TestWrongElements(t *testing.T) {
	var a assembly
	var v overlap.Verify
	var checked, wrong int64
	a.sum(&v, &workload.Verdict{Checked: 8, Wrong: 3, First: 5}, 8, "elements of products", &checked, &wrong)
	require.Equal(t, "3 of 8 elements of products are wrong, the first is number 5", a.wrong)
	a.wrong = ""
	a.sum(&v, nil, 8, "elements of products", &checked, &wrong)
	require.Equal(t, "not all of the 8 elements of products were compared", a.wrong)
}

// The windows of an iteration in which a clock was capped give way to those of its repetition. All are checked.
func TestCappedIterationsAreReplaced(t *testing.T) {
	c := plantest.Overlap("host", overlap.Beside, 2)
	plain := assembled(t, c, func(int, *sample) {}).Measurement.Rows
	all := streams(t, &c, func(int, *sample) {})
	again := streams(t, &c, func(_ int, s *sample) { s.Repeat = 1 })
	for i := range all {
		all[i].Repeats = map[string]map[int]int{trialsOf(1): {0: 1}}
		for _, r := range again[i].Records {
			var s sample
			require.NoError(t, json.Unmarshal(r.Data, &s))
			if r.Kind != kindSample || s.Row != 1 || s.Iteration > 0 {
				continue
			}
			s.US, s.Compute, s.Communication = 200, 200, 200
			data, err := json.Marshal(s)
			require.NoError(t, err)
			all[i].Records = append(all[i].Records, rank.Record{Kind: kindSample, Data: data})
		}
	}
	d := resulttest.New(c, resulttest.Attempt()).(*overlap.Document)
	require.NoError(t, Assemble(d, all))
	require.Equal(t, result.Success, d.Outcome.Status, d.Outcome.Reasons)
	for i, row := range d.Measurement.Rows {
		require.Equal(t, plain[i].Together.N, row.Together.N)
		require.Equal(t, 100.0, row.Together.Min)
		require.Equal(t, i == 1, row.Together.Max == 200)
		require.Equal(t, i == 1, row.Verify.Checks > plain[i].Verify.Checks)
	}
}
