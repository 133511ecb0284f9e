package overlap_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/result"
)

// A document of overlap holds what its case asks for, and its figures follow from its medians.
func TestFieldsAgree(t *testing.T) {
	for want, damage := range map[string]func(m *overlap.Measurement){
		"do not match the medians":         func(m *overlap.Measurement) { *m.Rows[0].Efficiency += 0.1 },
		"rows[2048 bytes]: exposed":        func(m *overlap.Measurement) { m.Rows[0].Together.P95, m.Rows[0].Exposed = 99, 1 },
		"was not asked for":                func(m *overlap.Measurement) { m.Rows[0].ProductM++ },
		"appears twice":                    func(m *overlap.Measurement) { m.Rows[1] = m.Rows[0] },
		"has no time of whole-compute":     func(m *overlap.Measurement) { m.Rows[0].WholeCompute = nil },
		"with 1 rows of 2":                 func(m *overlap.Measurement) { m.Rows = m.Rows[:1] },
		"a coverage is 1.5":                func(m *overlap.Measurement) { m.Rows[0].ComputeCoverage = 1.5 },
		"but row 2048 bytes":               func(m *overlap.Measurement) { m.Rows[0].Verify.Passed = false },
		"passed with 1 and 0 wrong":        func(m *overlap.Measurement) { m.Rows[0].Verify.WrongProducts = 1 },
		"sampling differs from":            func(m *overlap.Measurement) { m.Sampling.Iterations++ },
		"communication_path is empty":      func(m *overlap.Measurement) { m.CommunicationPath = "" },
		"communication has 1 samples of 3": func(m *overlap.Measurement) { m.Rows[0].Communication.N = 1 },
		"compute_inside_us: min, p50":      func(m *overlap.Measurement) { m.Rows[0].ComputeInside.Min = 0 },
	} {
		d := resulttest.Overlap(plantest.Overlap("host", overlap.LinearRotation, 2), resulttest.Attempt())
		require.NoError(t, result.Validate(d))
		damage(&d.Measurement)
		require.ErrorContains(t, result.Validate(d), want)
	}
}

// An efficiency that is below the noise is refused in a new document, and read in an older one.
func TestEfficiencyBelowNoise(t *testing.T) {
	d := resulttest.Overlap(plantest.Overlap("host", overlap.Beside, 2), resulttest.Attempt())
	r := &d.Measurement.Rows[0]
	r.Together.P95, r.Together.Max = 9*r.Serial.P50, 9*r.Serial.P50
	require.ErrorContains(t, result.Validate(d), "efficiency")
	older, err := result.Encode(d)
	require.NoError(t, err)
	_, err = result.NewInspector(func(string) error { return nil }).Inspect(older)
	require.NoError(t, err)
	*r.Efficiency += 0.1
	older, err = result.Encode(d)
	require.NoError(t, err)
	_, err = result.NewInspector(func(string) error { return nil }).Inspect(older)
	require.ErrorContains(t, err, "efficiency")
	r.Figures = r.Derive(overlap.Beside, 2)
	require.Nil(t, r.Efficiency)
	require.NoError(t, result.Validate(d))
}

// The figures are those of their definitions, also where together is slower than serial. A
// slowdown stands only where the other side covers at least 95 % of the window.
func TestFiguresFollow(t *testing.T) {
	steady := func(time float64) result.Burst { return result.Burst{P50: time, P95: time} }
	row := func(compute, communication, together float64) overlap.Row {
		return overlap.Row{
			Products: 4, Communications: 3,
			Compute: steady(compute), Communication: steady(communication), Together: steady(together),
			ComputeInside: result.Burst{P50: 1.2 * compute}, CommunicationInside: result.Burst{P50: 1.5 * communication},
		}
	}
	r := row(100, 30, 100)
	f := r.Derive(overlap.Beside, 4)
	one := 1.0
	require.Equal(t, overlap.Figures{Exposed: 0, Efficiency: &one, Floor: 100}, f)
	r = row(100, 30, 145)
	require.Equal(t, -0.5, *r.Derive(overlap.Beside, 4).Efficiency)
	require.Equal(t, 45.0, r.Derive(overlap.Beside, 4).Exposed)
	r.ComputeCoverage, r.CommunicationCoverage = 0.949, 0.95
	f = r.Derive(overlap.Beside, 4)
	require.Nil(t, f.ComputeSlowdown)
	require.Equal(t, 1.5, *f.CommunicationSlowdown)
	require.Nil(t, f.ComputeTax)

	// The noise is 10 + 0 + 40/√4 = 30.
	for communication, above := range map[float64]bool{29.9: false, 30: false, 30.1: true} {
		r := row(100, communication, 90)
		r.Compute.P95, r.Compute.N = 110, 1
		r.Together.P95, r.Together.N = 130, 4
		require.Equal(t, above, r.Derive(overlap.Beside, 4).Efficiency != nil, communication)
	}
	// The noise of the exposed time is 10 + 40/√4 = 30, too.
	for exposed, shown := range map[float64]bool{-30.1: true, -30: true, -29.9: false, 0: false, 29.9: false, 30: true} {
		r := row(100, 10, 100+exposed)
		r.Exposed = exposed
		r.Compute.P95, r.Compute.N = 110, 1
		r.Together.P95, r.Together.N = r.Together.P50+40, 4
		require.Equal(t, shown, r.ExposedBeyondNoise() != nil, exposed)
	}
	steadily := row(100, 10, 100)
	require.Zero(t, *steadily.ExposedBeyondNoise(), "entirely hidden, without noise")
	require.Nil(t, new(overlap.Row).Derive(overlap.Beside, 4).Efficiency, "no time at all")

	// d = 4: max(4·25, 3·40 + 25), of 3 communications of 40.
	r = row(100, 120, 150)
	r.WholeCompute, r.WholeCommunication = &result.Burst{P50: 80}, &result.Burst{P50: 100}
	f = r.Derive(overlap.LinearRotation, 4)
	require.Equal(t, 145.0, f.Floor)
	require.Equal(t, 1.25, *f.ComputeTax)
	require.Equal(t, 1.2, *f.CommunicationTax)
}
