package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
)

// world is what runs on a machine are like. All are relative: 0.03 is 3 %.
type world struct {
	name    string
	run     float64 // standard deviation between runs
	within  float64 // standard error of a run's median
	slow    float64 // fraction of runs in a mode that is slower by slowBy
	slowBy  float64
	sticky  bool    // the mode stays for several runs
	oneSide bool    // only NEW can be slow
	drift   float64 // over the whole session
	tick    float64 // of the clock, relative to the time
	heavy   bool    // between runs, Student's t with two degrees of freedom
}

// machine makes the runs of one session in the order in which they are measured.
type machine struct {
	world
	rng  *rand.Rand
	n    int
	all  int
	mode bool
	// recorded are the scores of real runs in the order in which they were measured. They take the place of
	// the world's, from the first on and again.
	recorded []float64
}

func (m *machine) measure(isNew bool, shift float64) float64 {
	if m.recorded != nil {
		x := m.recorded[m.n%len(m.recorded)]
		if m.n++; isNew {
			x += shift
		}
		return x
	}
	switch {
	case m.n == 0, !m.sticky, m.rng.Float64() < 0.25: // a mode lasts four runs on average
		m.mode = m.rng.Float64() < m.slow
	}
	x := m.run * m.rng.NormFloat64()
	if m.heavy {
		x = m.run * m.rng.NormFloat64() / math.Sqrt(m.rng.ExpFloat64())
	}
	x += m.within*m.rng.NormFloat64() + m.drift*float64(m.n)/float64(m.all)
	if m.mode && (isNew || !m.oneSide) {
		x += math.Log1p(m.slowBy)
	}
	if isNew {
		x += shift
	}
	if m.tick > 0 {
		x = math.Log(max(m.tick, math.Round(math.Exp(x)/m.tick)*m.tick))
	}
	m.n++
	return x
}

// session measures k runs a side, all of OLD first or interleaved.
func (m *machine) session(k int, interleaved bool, shift float64) (a, b []float64) {
	for i := range 2 * k {
		isNew := i >= k
		if interleaved {
			isNew = i%4 == 1 || i%4 == 2 // ABBA
		}
		if x := m.measure(isNew, shift); isNew {
			b = append(b, x)
		} else {
			a = append(a, x)
		}
	}
	return a, b
}

// confirms measures a suspect again, in as many stages as it needs.
func (m *machine) confirms(suspected string, shift float64) bool {
	var seen []series
	var a, b []float64
	for {
		olds, news := m.session(Pairs, true, shift)
		a, b = append(a, olds...), append(b, news...)
		seen = append(seen, series{judgeAlone(a, b, m.tick).Status, a, b, nil})
		if d, confirmed := decide(suspected, Options{Effect: DefaultEffect}, seen); !d.open() {
			return confirmed
		}
	}
}

// outcome is what a simulation counts, per cent of sessions.
type outcome struct{ flagged, confirmed, same float64 }

// simulate judges n sessions.
func simulate(w world, k int, interleaved bool, by float64, n int) outcome {
	return judgeSessions(n, k, interleaved, by, func(i int) machine {
		return machine{world: w, rng: rand.New(rand.NewPCG(uint64(i), uint64(k)<<8|uint64(len(w.name)))), all: 2*k + 2*Pairs*Stages}
	})
}

// judgeSessions judges n sessions, each on a machine of its own.
func judgeSessions(n, k int, interleaved bool, by float64, on func(i int) machine) outcome {
	var o outcome
	for i := range n {
		m := on(i)
		a, b := m.session(k, interleaved, by)
		s := judgeAlone(a, b, m.tick)
		if s.Status == Same {
			o.same++
		}
		if s.Status != Slower && s.Status != Faster {
			continue
		}
		o.flagged++
		if m.confirms(s.Status, by) {
			o.confirmed++
		}
	}
	percent := 100 / float64(n)
	return outcome{o.flagged * percent, o.confirmed * percent, o.same * percent}
}

// judgeAlone judges one series with no other repeats than its own.
func judgeAlone(a, b []float64, tick float64) Shift {
	var z noise
	z.add("old", names(len(a)), a)
	z.add("new", names(len(b)), b)
	return judge(question{old: a, new: b, effect: DefaultEffect, noise: &z, tail: 0.05, tick: 2 * tick, pairs: 300})
}

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(i)
	}
	return out
}

var worlds = []world{
	{name: "σ_b 0.5 %", run: 0.005},
	{name: "σ_b 1 %", run: 0.01},
	{name: "σ_b 3 %", run: 0.03},
	{name: "AR(1) 0.3 in runs, σ_b 0.5 %", run: 0.005, within: ar(0.3)},
	{name: "AR(1) 0.6 in runs, σ_b 0.5 %", run: 0.005, within: ar(0.6)},
	{name: "AR(1) 0.9 in runs, σ_b 0.5 %", run: 0.005, within: ar(0.9)},
	{name: "slow mode 5 %, sticky", run: 0.01, slow: 0.05, slowBy: 0.15, sticky: true},
	{name: "slow mode 15 %", run: 0.01, slow: 0.15, slowBy: 0.15},
	{name: "slow mode 15 %, sticky", run: 0.01, slow: 0.15, slowBy: 0.15, sticky: true},
	{name: "slow mode 30 %, sticky", run: 0.01, slow: 0.30, slowBy: 0.15, sticky: true},
	{name: "slow mode 15 % of NEW, sticky", run: 0.01, slow: 0.15, slowBy: 0.15, sticky: true, oneSide: true},
	{name: "drift of 2 %", run: 0.01, drift: 0.02},
	{name: "ticks of 10 %", run: 0.01, tick: 0.1},
	{name: "heavy tail", run: 0.005, heavy: true},
}

// ar is the standard error of the median of 448 samples with σ 3 % and this correlation.
func ar(rho float64) float64 { return 1.25 * 0.03 / math.Sqrt(448*(1-rho)/(1+rho)) }

// BenchmarkSimulation prints the figures from which docs/compare.md has its table.
func BenchmarkSimulation(b *testing.B) {
	for range b.N {
		for _, w := range worlds {
			for _, interleaved := range []bool{false, true} {
				order := "A…AB…B"
				if interleaved {
					order = "ABBA"
				}
				row := fmt.Sprintf("| %s | %s |", w.name, order)
				for _, k := range []int{5, 10, 16} {
					none := simulate(w, k, interleaved, 0, 500)
					up := simulate(w, k, interleaved, math.Log(1.05), 300)
					row += fmt.Sprintf(" %.1f / %.1f / %.0f / %.0f / %.1f |", none.flagged, none.confirmed, up.flagged, up.confirmed, up.same)
				}
				fmt.Println(row)
			}
		}
	}
}

// rng returns a generator with a fixed seed.
func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// found counts what is found in a comparison of many series.
type found struct{ right, wrong int }

func (f found) String() string { return fmt.Sprintf("%d + %d", f.right, f.wrong) }

// discoveries measures n series with k interleaved runs a side, of which the first changed
// became 5 % slower, and counts the suspects, those that remain when the number of series is
// taken into account, and those that are measured again and confirmed.
func discoveries(w world, k, n, changed int) (suspects, remain, confirmed found) {
	shifts, machines := make([]*Shift, n), make([]*machine, n)
	by := func(i int) float64 {
		if i < changed {
			return math.Log(1.05)
		}
		return 0
	}
	for i := range shifts {
		m := &machine{world: w, rng: rand.New(rand.NewPCG(uint64(i), uint64(k)<<16|uint64(len(w.name)))), all: 2*k + 2*Pairs*Stages}
		a, b := m.session(k, true, by(i))
		s := judgeAlone(a, b, w.tick)
		shifts[i], machines[i] = &s, m
	}
	discover(shifts)
	for i, s := range shifts {
		if !s.Suspect {
			continue
		}
		note := func(f *found) {
			if i < changed && s.log > 0 {
				f.right++
			} else {
				f.wrong++
			}
		}
		note(&suspects)
		if s.Status != Unclear {
			note(&remain)
		}
		direction := Faster
		if s.log > 0 {
			direction = Slower
		}
		if machines[i].confirms(direction, by(i)) {
			note(&confirmed)
		}
	}
	return suspects, remain, confirmed
}

// BenchmarkFalseDiscoveries prints what is found where 40 of 2,000 series became slower by 5 %.
// docs/compare.md sums it up.
func BenchmarkFalseDiscoveries(b *testing.B) {
	for range b.N {
		for _, w := range worlds {
			row := fmt.Sprintf("| %s |", w.name)
			for _, k := range []int{5, 10} {
				suspects, remain, confirmed := discoveries(w, k, 2000, 40)
				row += fmt.Sprintf(" %v | %v | %v |", suspects, remain, confirmed)
			}
			fmt.Println(row)
		}
	}
}

// Of many series, those that a few are always beyond are not called slower, and those that
// are slower are.
func TestManySeries(t *testing.T) {
	need.Full(t)
	noisy := world{name: "σ_b 3 %", run: 0.03}
	suspects, remain, _ := discoveries(noisy, 5, 400, 0)
	require.Greater(t, suspects.wrong, 4, "3 % of series are suspect")
	require.LessOrEqual(t, remain.wrong, 1)
	suspects, remain, confirmed := discoveries(world{name: "σ_b 1 %", run: 0.01}, 5, 100, 10)
	require.Equal(t, found{10, 0}, suspects)
	require.Equal(t, found{10, 0}, remain)
	require.Equal(t, found{10, 0}, confirmed)
}

func TestFewRunsDecideNothing(t *testing.T) {
	for _, k := range []int{2, 3} {
		for _, w := range worlds {
			require.Zero(t, simulate(w, k, true, math.Log(1.05), 20))
		}
	}
}

// A cheap part of BenchmarkSimulation: no false alarm is confirmed, a shift of 5 % is found
// where five runs are enough, and it is never called the same.
func TestWorlds(t *testing.T) {
	need.Full(t)
	for _, w := range worlds {
		none, up := simulate(w, 5, true, 0, 40), simulate(w, 5, true, math.Log(1.05), 40)
		require.LessOrEqual(t, none.confirmed, 5.0, w.name)
		require.Zero(t, up.same, w.name)
		if sigma := math.Hypot(w.run, w.within); 5 >= 28*sigma*sigma/0.05/0.05 && w.slow == 0 && w.tick == 0 && !w.heavy {
			require.GreaterOrEqual(t, up.confirmed, 95.0, w.name)
		}
	}
}

// What was unclear is decided with the number of runs that the comparison names, if shift and noise
// are as it measured them. A quarter decides it less often, and more lines need more runs.
func TestEnoughRunsDecide(t *testing.T) {
	need.Full(t)
	judged := func(a, b []float64) Shift { return judgeAlone(a, b, 0) }
	for _, tt := range []struct{ sigma, shift float64 }{{0.04, 0.09}, {0.02, 0.06}, {0.012, 0}} {
		var s Shift
		for seed := uint64(1); s.Enough == 0 || s.Enough > 40; seed++ {
			m := machine{world: world{run: tt.sigma}, rng: rng(seed), all: 1}
			s = judged(m.session(MinRuns, true, tt.shift))
			s.Enough = s.enough(1)
		}
		sigma := s.floor / normal975 / widening(s.freedom) / math.Sqrt(2.0/MinRuns) // that the session showed
		decided := func(k int) (per float64) {
			for i := range 60 {
				m := machine{world: world{run: sigma}, rng: rng(uint64(1000 + i)), all: 1}
				if again := judged(m.session(k, true, s.log)); again.Status != Unclear {
					per += 100.0 / 60
				}
			}
			return per
		}
		many, few := decided(s.Enough), decided(max(MinRuns, s.Enough/4))
		t.Logf("σ %.1f %%, %+.1f %%: %d runs decide %.0f %%, a quarter %.0f %%", 100*tt.sigma, 100*s.log, s.Enough, many, few)
		require.GreaterOrEqual(t, many, 88.0)
		require.Less(t, few, many-15)
		require.GreaterOrEqual(t, s.enough(100), s.Enough)
	}
}

// A comparison says how many runs would have been enough for what is unclear, and for nothing else.
func TestEnoughRuns(t *testing.T) {
	side := func(center, sigma float64, n int) (v []float64) {
		for i := range n { // of a normal distribution, evenly
			v = append(v, center+sigma*math.Sqrt2*math.Erfinv(2*(float64(i)+0.5)/float64(n)-1))
		}
		return v
	}
	for _, tt := range []struct {
		sigma, shift, tick float64
		runs, lines, want  int
	}{
		{0.03, 0.10, 0, 5, 1, 0}, // it is slower
		{0.002, 0, 0, 5, 1, 0},   // it is the same
		{0.05, 0.06, 0, 5, 1, 25},
		{0.05, 0.06, 0, 5, 100, 52},
		{0.05, 0.06, 0, 4, 1, 28},
		{0.03, 0, 0, 5, 1, 37},
		{0.03, math.Log(1.03), 0, 5, 1, MaxEnough + 1}, // as large as what counts
		{0.05, 0.06, 0.1, 5, 1, MaxEnough + 1},         // within the ticks of the clock
		{0.03, 0.10, 0, 3, 1, 0},                       // the noise is unknown
	} {
		s := judgeAlone(side(0, tt.sigma, tt.runs), side(tt.shift, tt.sigma, tt.runs), tt.tick)
		require.Equal(t, tt.want, s.enough(tt.lines), "%+v, %s", tt, s.Status)
	}
}
