package runner

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/workload"
)

// tape is a device, a stream and an adapter, as far as windows need them, that write down what is asked of
// them: B bind, D dispatch, L dispatch with a cached layout, S stage, C
// combine, A align, | an event, . a synchronise, [ and ] the ends of a capture, G a launch. A combine shows which stage it takes
// where that is not the last dispatch's: C0 is the first stage.
type tape struct {
	accel.Device
	accel.Stream
	Adapter
	log      strings.Builder
	stages   int
	staged   map[int]int // stage → dispatch it was made from
	dispatch int
	events   int
}

type tapeEvent struct {
	accel.Event
	at int
}

func (*tapeEvent) Close() error { return nil }

func (t *tape) RecordExternal(e accel.Event) error { return t.Record(e) }

func (t *tape) Align() error {
	t.log.WriteString("A")
	return nil
}

func (t *tape) BeginCapture() error {
	t.log.WriteString("[")
	return nil
}

func (t *tape) EndCapture() (accel.Graph, error) {
	t.log.WriteString("]")
	return tapeGraph{t}, nil
}

type tapeGraph struct{ t *tape }

func (g tapeGraph) Launch(accel.Stream) error {
	g.t.log.WriteString("G")
	return nil
}

func (tapeGraph) Close() error { return nil }

func (t *tape) Wait(accel.Event) error { panic("unexpected") }

func (t *tape) Err() error { return nil }

func (t *tape) Record(e accel.Event) error {
	t.events++
	e.(*tapeEvent).at = t.events
	t.log.WriteString("|")
	return nil
}

func (t *tape) NewEvent() (accel.Event, error) { return &tapeEvent{}, nil }

func (t *tape) Elapsed(start, end accel.Event) (float64, error) {
	return float64(end.(*tapeEvent).at - start.(*tapeEvent).at), nil
}

func (t *tape) Synchronize() error {
	t.log.WriteString(".")
	return nil
}

func (t *tape) CopyIn(accel.Stream, accel.Ptr, unsafe.Pointer, int64) error {
	t.log.WriteString("W")
	return nil
}

func (t *tape) CopyOut(accel.Stream, unsafe.Pointer, accel.Ptr, int64) error { return nil }

func (t *tape) Bind(*Problem) error {
	t.log.WriteString("B")
	return nil
}

func (t *tape) Dispatch() (Handle, error) {
	t.dispatch++
	t.log.WriteString("D")
	return t.dispatch, nil
}

func (t *tape) DispatchCached(Handle) (Handle, error) {
	t.dispatch++
	t.log.WriteString("L")
	return t.dispatch, nil
}

func (t *tape) Stage(h Handle) (Staged, error) { return t.stage(h, "S") }

func (t *tape) StageRows(h Handle, fill func([]Rows) error) (Staged, error) {
	if err := fill(nil); err != nil {
		return nil, err
	}
	return t.stage(h, "R")
}

func (t *tape) stage(h Handle, letter string) (Staged, error) {
	t.staged[t.stages] = h.(int)
	t.stages++
	t.log.WriteString(letter)
	return t.stages - 1, nil
}

func (t *tape) Combine(h Handle, s Staged) (accel.Ptr, error) {
	t.log.WriteString("C")
	if t.staged[s.(int)] != h.(int) {
		fmt.Fprint(&t.log, s)
	}
	return 0, nil
}

func (t *tape) Inspect(Handle) (*Received, error) {
	t.log.WriteString("I")
	return &Received{}, nil
}

func (*tape) Close() error { return nil }

// emptyPoint is a rung without tokens.
func emptyPoint() *point {
	trace := &workload.Trace{World: 1, TopK: 1, Experts: 1, First: []int{0, 0}}
	o := oracle{arithmetic: newArithmetic(layouts[TokenRank], trace, contract, testHidden, 1)}
	return &point{
		Problem: &Problem{Inputs: make([]accel.Ptr, 3)}, trace: trace, oracle: o, changed: o, sent: []oracle{o, o, o},
		timed: map[string]*Verdict{},
	}
}

var timingOf3 = ep.Timing{
	ItersPerTrial: 2, TrialsPerPoint: 1, WarmupItersPerTrial: 3,
	ChainItersPerTrial: 3, ChainTrialsPerPoint: 1, ChainDrop: 1,
}

func newTape(d Description, contract string) (*tape, *run) {
	t := &tape{staged: map[int]int{}}
	m := &run{
		device: accel.NewScope(t), stream: t, adapter: t, data: &copied{t, t}, d: d,
		c: plan.Case{Contract: contract}, block: &ep.Block{Timing: timingOf3},
		start: &tapeEvent{}, end: &tapeEvent{}, chance: rand.New(rand.NewPCG(1, 2)),
	}
	return t, m
}

var forms = map[string]Description{
	"reusable":                {IndexType: numeric.Int64},
	"fresh":                   {FreshPair: true},
	"reusable hoisted":        {StageWorks: true, FP8Consume: ConsumeNative},
	"fresh hoisted":           {FreshPair: true, StageWorks: true, FP8Consume: ConsumeNative},
	"reusable staged in pair": {StageWorks: true, FP8Consume: ConsumeDequant},
}

// Section 2 of the contract, to the letter: three warm-ups, two samples. No
// synchronise stands between pre and the start event. W is the copy to the device with which
// all windows begin alike.
func TestFreshWindows(t *testing.T) {
	const each, reuse, bound = "DSC.DSC.DSC.", "DSC.DC0.DC0.", "BW."
	for _, c := range []struct{ form, component, want string }{
		{"reusable", compRoundtrip, bound + each + "|DSC|.|DSC|."},
		{"reusable", compDispatch, bound + each + "|D|.|D|."},
		{"reusable", compCombine, bound + each + "DS." + "|C|.|C|."},
		{"fresh", compRoundtrip, bound + each + "|DSC|.|DSC|."},
		{"fresh", compDispatch, bound + each + "|D|.SC.|D|.SC."},
		{"fresh", compCombine, bound + each + "DS|C|.DS|C|."},
		{"reusable hoisted", compRoundtrip, bound + reuse + "D.IRC.W." + "|DC1|.|DC1|."},
		{"reusable hoisted", compDispatch, bound + reuse + "|D|.|D|."},
		{"reusable hoisted", compCombine, bound + reuse + "DS." + "|C|.|C|."},
		{"reusable hoisted", compStage, bound + each + "D|S|.D|S|."},
		{"fresh hoisted", compRoundtrip, bound + reuse + "D.IRC.W." + "|DC1|.|DC1|."},
		{"fresh hoisted", compDispatch, bound + reuse + "|D|.SC.|D|.SC."},
		{"fresh hoisted", compCombine, bound + reuse + "DS|C|.DS|C|."},
		{"fresh hoisted", compStage, bound + each + "D|S|.C.D|S|.C."},
		{"reusable staged in pair", compRoundtrip, bound + each + "|DSC|.|DSC|."},
		{"reusable staged in pair", compStage, bound + each + "D|S|.D|S|."},
	} {
		t.Run(c.form+" "+c.component, func(t *testing.T) {
			tape, m := newTape(forms[c.form], ep.ContractLayout)
			us, err := m.fresh(emptyPoint(), c.component, -1)
			require.NoError(t, err)
			require.Equal(t, c.want, tape.log.String())
			require.Equal(t, []float64{1, 1}, us)
		})
	}
}

// A judged sample is followed by what completes and judges it and by a pair in which the ranks meet,
// outside of the clock. Behind a roundtrip one more dispatch is judged.
func TestJudgedSamples(t *testing.T) {
	for _, c := range []struct{ form, component, want string }{
		{"reusable", compRoundtrip, "|DSC|." + "|DSC|." + "D.ISC." + "W." + "DSC."},
		{"reusable", compDispatch, "|D|." + "|D|." + "ISC." + "W." + "DSC."},
		{"reusable", compCombine, "DS." + "|C|." + "|C|." + "W." + "C."},
		{"fresh", compDispatch, "|D|.SC." + "|D|." + "ISC." + "W." + "DSC."},
		{"fresh", compCombine, "DS|C|." + "DS|C|." + "W." + "DSC."},
		{"reusable hoisted", compRoundtrip, "|DC1|." + "|DC1|." + "D.IC1." + "W." + "DC1."},
		{"reusable hoisted", compStage, "D|S|." + "D|S|." + "IC." + "W." + "DSC."},
	} {
		t.Run(c.form+" "+c.component, func(t *testing.T) {
			tape, m := newTape(forms[c.form], ep.ContractLayout)
			p := emptyPoint()
			_, err := m.fresh(p, c.component, 1)
			require.NoError(t, err)
			require.Regexp(t, regexp.QuoteMeta(c.want)+"$", tape.log.String())
			require.NotNil(t, p.timed[c.component])
		})
	}
}

// The ranks meet behind what is judged after replays, so that no peer's next dispatch writes over rows that
// are still read: the first sample, another launch, and one with other inputs.
func TestJudgedReplays(t *testing.T) {
	tape, m := newTape(Description{FreshPair: true, Replayed: true}, ep.ContractLayout)
	m.Session = rank.NewSession(rank.Place{World: 1}, nil, "", func(rank.Record) error { return nil })
	require.NoError(t, m.replayWindow(emptyPoint(), compDispatch, rank.Trial{}))
	require.Equal(t, "BW."+"DSC.DSC.DSC."+"[A|D|SC]"+"G.G.G."+"G."+"IA.W."+"G."+"IG.IA."+"IG.IA.", tape.log.String())
}

// Section 3: floors chain, period chain, one drained pair; three pairs each. Between
// them the inputs change. Behind the period chain, a dispatch without a wait in front of it is
// inspected and completed.
func TestChains(t *testing.T) {
	for _, c := range []struct{ form, want string }{
		{"reusable", "BW." + "DSC.DSC.DSC." + "|D|S|C|" + "|D|S|C|" + "|D|S|C|." + "W." + "|DSC|" + "|DSC|" + "|DSC|" + "D.ISC." + "DSC."},
		{"fresh", "BW." + "DSC.DSC.DSC." + "|D|S|C|" + "|D|S|C|" + "|D|S|C|." + "W." + "|DSC|" + "|DSC|" + "|DSC|" + "D.ISC." + "DSC."},
		{"reusable hoisted", "BW." + "DSC.DC0.DC0." + "D.IRC.W." + "|D||C1|" + "|D||C1|" + "|D||C1|." + "W." + "|DC1|" + "|DC1|" + "|DC1|" + "D.ISC." + "DSC."},
		{"reusable staged in pair", "BW." + "DSC.DSC.DSC." + "|D|S|C|" + "|D|S|C|" + "|D|S|C|." + "W." + "|DSC|" + "|DSC|" + "|DSC|" + "D.ISC." + "DSC."},
	} {
		t.Run(c.form, func(t *testing.T) {
			tape, m := newTape(forms[c.form], ep.ContractLayout)
			r, _, err := m.timeChains(emptyPoint(), rank.Trial{Number: 7})
			require.NoError(t, err)
			require.Equal(t, c.want, tape.log.String())
			// The first pair is dropped; the floors have four events a pair, the period two.
			require.Equal(t, []float64{1, 1}, r.Dispatch)
			require.Equal(t, []float64{1, 1}, r.Combine)
			require.Equal(t, []float64{1, 1}, r.Pair)
			require.Equal(t, []float64{2}, r.StartToStart)
			require.Equal(t, 7, r.Trial)
			hoisted := m.d.Hoisted()
			require.Equal(t, hoisted, r.OutputPassed == nil)
			require.Equal(t, hoisted, r.OutputError == nil)
		})
	}
}

// Under the cached-layout contract only the first dispatch after a bind makes a
// layout, and no window has it.
func TestCachedLayout(t *testing.T) {
	tape, m := newTape(forms["reusable"], ep.ContractCachedLayout)
	_, err := m.fresh(emptyPoint(), compDispatch, -1)
	require.NoError(t, err)
	_, err = m.fresh(emptyPoint(), compCombine, -1)
	require.NoError(t, err)
	require.Equal(t, "BW.DSC.LSC.LSC.|L|.|L|."+"BW.DSC.LSC.LSC.LS.|C|.|C|.", tape.log.String())
}

// What is judged after a window is its last call, or the next one of the same
// binding: the oracle neither binds nor, under the cached-layout contract, makes
// a layout. The combine of a reusable handle is judged the second time too.
func TestJudgedAfterWindows(t *testing.T) {
	const dispatched, combined = "ISC.", ""
	for _, c := range []struct{ form, contract, component, left, changed string }{
		{"reusable", ep.ContractLayout, compRoundtrip, combined, "D.IRC."},
		{"reusable", ep.ContractLayout, compDispatch, dispatched, "D.IRC."},
		{"reusable", ep.ContractLayout, compCombine, combined, "D.ISCRC."},
		{"reusable", ep.ContractCachedLayout, compDispatch, dispatched, "L.IRC."},
		{"reusable", ep.ContractCachedLayout, compCombine, combined, "L.ISCRC."},
		{"fresh", ep.ContractLayout, compDispatch, combined, "D.IRC."},
		{"fresh", ep.ContractLayout, compCombine, combined, "D.IRC."},
		{"fresh", ep.ContractCachedLayout, compRoundtrip, combined, "L.IRC."},
		{"reusable hoisted", ep.ContractLayout, compStage, "IC.", "D.IRC."},
		{"reusable hoisted", ep.ContractLayout, compRoundtrip, combined, "D.IRC."},
		{"fresh hoisted", ep.ContractLayout, compStage, combined, "D.IRC."},
	} {
		t.Run(c.form+" "+c.contract+" "+c.component, func(t *testing.T) {
			tape, m := newTape(forms[c.form], c.contract)
			var when []string
			m.Session = rank.NewSession(rank.Place{World: 1}, nil, "", func(r rank.Record) error {
				var v verdictRecord
				require.NoError(t, json.Unmarshal(r.Data, &v))
				when = append(when, v.When)
				return nil
			})
			p := emptyPoint()
			_, err := m.fresh(p, c.component, -1)
			require.NoError(t, err)
			tape.log.Reset()
			require.NoError(t, m.judgeWindow(p, c.component))
			require.Equal(t, c.left+c.changed, tape.log.String())
			require.Equal(t, []string{"post-" + c.component, "post-" + c.component + "-changed"}, when)
		})
	}
}

// An alternating pass binds once and makes the calls of its component's windows.
// Only where combine is timed alone does it stage other rows for one handle.
func TestAlternatingPasses(t *testing.T) {
	const warm = "BW.DSC.DSC.DSC."
	for _, c := range []struct{ form, contract, component, first, each string }{
		{"reusable", ep.ContractLayout, compRoundtrip, "", "DSC."},
		{"reusable", ep.ContractLayout, compDispatch, "", "D.I"},
		{"reusable", ep.ContractLayout, compCombine, "D.I", "RC.SC."},
		{"reusable", ep.ContractCachedLayout, compRoundtrip, "", "LSC."},
		{"reusable", ep.ContractCachedLayout, compDispatch, "", "L.I"},
		{"reusable", ep.ContractCachedLayout, compCombine, "L.I", "RC.SC."},
		{"fresh", ep.ContractLayout, compRoundtrip, "", "DSC."},
		{"fresh", ep.ContractLayout, compDispatch, "", "D.ISC."},
		{"fresh", ep.ContractCachedLayout, compDispatch, "", "L.ISC."},
		{"fresh hoisted", ep.ContractLayout, compDispatch, "", "D.ISC."},
		{"reusable hoisted", ep.ContractLayout, compDispatch, "", "D.I"},
	} {
		t.Run(c.form+" "+c.contract+" "+c.component, func(t *testing.T) {
			tape, m := newTape(forms[c.form], c.contract)
			p := emptyPoint()
			_, err := m.alternateCalls(p, c.component)
			require.NoError(t, err)
			warm := warm
			if c.contract == ep.ContractCachedLayout {
				warm = "BW.DSC.LSC.LSC."
			}
			calls := m.block.AlternatingCalls(0) / max(1, strings.Count(c.each, "C."))
			require.Equal(t, warm+c.first+strings.Repeat(c.each, calls), tape.log.String())
		})
	}
}
