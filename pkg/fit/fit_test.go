package fit_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/fit"
)

// curve returns the times of the powers of two from first to last under a line with
// relative noise of standard deviation sigma.
func curve(rng *rand.Rand, first, last, alpha, gbps, sigma float64) (p []fit.Point) {
	for n := first; n <= last; n *= 2 {
		p = append(p, fit.Point{Bytes: n, Us: (alpha + n/gbps*1e-3) * math.Exp(sigma*rng.NormFloat64())})
	}
	return p
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

func TestWithoutNoiseTheFitIsExact(t *testing.T) {
	p := curve(rand.New(rand.NewPCG(1, 1)), 8, gib, 20, 400, 0)
	slices.Reverse(p)
	m := fit.Fit(p)
	require.Len(t, m.Segments, 1)
	s := m.Segments[0]
	require.Equal(t, fit.Estimate{Value: 20}, *s.Latency)
	require.Equal(t, fit.Estimate{Value: 400}, *s.Bandwidth)
	require.Equal(t, 8e6, *s.HalfBytes)
	require.InEpsilon(t, 20+1e6/400e3, s.Us(1e6), 1e-6)
	require.Empty(t, s.Why)
	require.Equal(t, 28, s.Sizes)
}

// From 8 bytes to 1 GiB with 2 % noise, 95 % of latencies are within 1 %, and a break is
// reported in at most one in 20 curves that have none.
func TestAccuracyOverAWholeLadder(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	var errs []float64
	breaks := 0
	const runs = 400
	for range runs {
		m := fit.Fit(curve(rng, 8, gib, 20, 400, 0.02))
		if len(m.Segments) > 1 {
			breaks++
			continue
		}
		s := m.Segments[0]
		require.NotNil(t, s.Latency)
		require.NotNil(t, s.Bandwidth)
		errs = append(errs, math.Abs(s.Latency.Value/20-1))
	}
	slices.Sort(errs)
	p95 := errs[len(errs)*95/100]
	t.Logf("p95 error of latency %.2f %%, breaks in %d of %d", 100*p95, breaks, runs)
	require.Less(t, p95, 0.010)
	require.LessOrEqual(t, breaks, runs/20)
}

// MoRI's published all_gather of 8 to 512 MiB a rank, on two nodes of four MI355X, is bound by
// the network: one line, of which no size is small enough for a latency.
func TestPublishedAllGather(t *testing.T) {
	var p []fit.Point
	for i, ms := range []float64{.456, .770, 1.401, 2.654, 5.216, 10.60, 21.11} {
		p = append(p, fit.Point{Bytes: float64(int64(8*mib) << i), Us: 1000 * ms})
	}
	m := fit.Fit(p)
	require.Len(t, m.Segments, 1)
	s := m.Segments[0]
	require.Nil(t, s.Latency)
	require.InEpsilon(t, 26.1, s.Bandwidth.Value, 0.002)
	require.Less(t, s.MaxResidual, 0.02)
	// From 16 MiB on, 0.1135 ms and 25.57 GB/s describe them as well.
	for _, q := range p[1:] {
		require.InEpsilon(t, 113.5+q.Bytes/25570, q.Us, 0.035)
	}
}

// A size that is 10 % off the line refutes it.
func TestASizeOffTheLineRefutesIt(t *testing.T) {
	for off, why := range map[float64]string{1.1: "", 1.17: "a size is 11 % off the fit, more than 10 %"} {
		var p []fit.Point
		for n := 8.0; n <= 8*gib; n *= 64 {
			p = append(p, fit.Point{Bytes: n, Us: 20 + n/400e3})
		}
		p[2].Us *= off
		s := fit.Fit(p).Segments[0]
		require.Equal(t, why, s.Why)
		require.Equal(t, why == "", s.Bandwidth != nil && s.Latency != nil)
	}
}

// One side of n½ does not identify the other figure.
func TestOneSideIdentifiesOneFigure(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	for range 50 {
		small := fit.Fit(curve(rng, 8, 64*kib, 20, 400, 0.02))
		for _, s := range small.Segments {
			require.Nil(t, s.Bandwidth, "n½ is 8 MB")
			require.Nil(t, s.HalfBytes)
			require.NotEmpty(t, s.Why)
		}
		large := fit.Fit(curve(rng, 64*mib, 16*gib, 20, 400, 0.02))
		for _, s := range large.Segments {
			require.Nil(t, s.Latency)
		}
	}
}

// A change of protocol shows as a break between the sizes at which it happens.
func TestABreakIsFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 17))
	found := 0
	const runs = 50
	for range runs {
		p := append(curve(rng, 8, 32*kib, 6, 20, 0.02), curve(rng, 64*kib, gib, 25, 400, 0.02)...)
		m := fit.Fit(p)
		if len(m.Segments) == 2 && m.Segments[0].LastBytes == 32*kib && m.Segments[1].FirstBytes == 64*kib {
			found++
			require.InEpsilon(t, 6, m.Segments[0].Latency.Value, 0.1)
			require.InEpsilon(t, 400, m.Segments[1].Bandwidth.Value, 0.1)
		}
	}
	require.GreaterOrEqual(t, found, runs*9/10)
}

func TestWhatIsNoLineHasNoFigures(t *testing.T) {
	for name, p := range map[string][]fit.Point{
		"too few":   {{8, 1}, {16, 1}, {32, 1}},
		"one size":  {{8, 1}, {8, 2}, {8, 3}, {8, 4}},
		"zeros":     {{0, 1}, {8, 0}, {16, math.NaN()}, {32, math.Inf(1)}, {64, 1}},
		"falls":     {{8, 9}, {16, 8}, {32, 7}, {64, 6}, {128, 5}},
		"scattered": {{8, 1}, {16, 9}, {32, 1}, {64, 9}, {128, 1}, {256, 9}},
		"same size": {{8, 1}, {8.0000001, 1}, {8.0000002, 1}, {8.0000003, 1}},
	} {
		m := fit.Fit(p)
		for _, s := range m.Segments {
			require.Nil(t, s.Latency, name)
			require.Nil(t, s.Bandwidth, name)
			require.NotEmpty(t, s.Why, name)
		}
		require.Equal(t, len(m.Segments) == 0, m.Why != "", name)
	}
}
