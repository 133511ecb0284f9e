package rank

import (
	"testing"

	"github.com/collectivex/collectivex/pkg/copies"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/plan"
)

func TestParseFaults(t *testing.T) {
	faults, err := ParseFaults("rank=1,kind=exit; case=a-*,rank=0,kind=flip,at=dispatch ;", "flip")
	require.NoError(t, err)
	require.Equal(t, []Fault{
		{Case: "*", Rank: 1, Kind: "exit", At: FaultAtStart},
		{Case: "a-*", Rank: 0, Kind: "flip", At: "dispatch"},
	}, faults)
	for _, f := range faults {
		again, err := ParseFaults(f.String(), "flip")
		require.NoError(t, err)
		require.Equal(t, []Fault{f}, again)
	}
	none, err := ParseFaults("")
	require.NoError(t, err)
	require.Empty(t, none)
	for text, want := range map[string]string{
		"kind=exit":                    "rank and kind are required",
		"rank=1":                       "rank and kind are required",
		"rank=one,kind=exit":           `invalid rank "one"`,
		"rank=1,kind=exit,to=2":        `unknown key "to"`,
		"case=[,rank=1,kind=abc":       "syntax error in pattern",
		"rank=0,kind=kill,at=half":     `unknown point "half" of kind kill; known are open, start, end and record-N with N from 1`,
		"rank=0,kind=exit,at=record-0": `unknown point "record-0" of kind exit`,
		"rank=0,kind=slow,at=record-2": `kind slow lasts for the whole case and has no point "record-2"; leave at= out`,
		"rank=1,kind=flipbit":          `unknown kind "flipbit"; known are exit, segv`,
	} {
		_, err := ParseFaults(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestFaultsStrikeTheirRankAndCaseAlone(t *testing.T) {
	faults, err := ParseFaults("case=a-*,rank=1,kind=flip,at=combine", "flip")
	require.NoError(t, err)
	for _, tt := range []struct {
		id   string
		rank int
		want bool
	}{{"a-1", 1, true}, {"a-1", 0, false}, {"b-1", 1, false}} {
		s := Session{faults: matching(faults, tt.id, tt.rank)}
		at, ok := s.Fault("flip")
		require.Equal(t, tt.want, ok)
		require.Equal(t, tt.want, at == "combine")
		_, ok = s.Fault("swap")
		require.False(t, ok)
	}
}

func TestCheckFaults(t *testing.T) {
	cases := []plan.Case{{CaseID: "a-w2", World: 2}, {CaseID: "a-w4", World: 4}, {CaseID: "b-w8", World: 8}}
	for text, want := range map[string]string{
		"":                          "",
		"rank=7,kind=exit":          "",
		"case=a-*,rank=3,kind=exit": "",
		"case=a-*,rank=4,kind=exit": `CX_FAULT "case=a-*,rank=4,kind=exit,at=start" matches no rank: the matching cases have at most 4 ranks`,
		"rank=1,kind=exit;case=c-*,rank=0,kind=segv": `CX_FAULT "case=c-*,rank=0,kind=segv,at=start" matches nothing: none of the 3 cases has such an id`,
		"rank=0,kind=flip":                           "",
		"case=a-*,rank=2,kind=flip":                  `CX_FAULT "case=a-*,rank=2,kind=flip,at=start" has no effect: nothing in a-w4`,
	} {
		faults, err := ParseFaults(text, "flip")
		require.NoError(t, err)
		err = CheckFaults(faults, cases, func(_ Fault, c *plan.Case) string {
			if c.CaseID == "b-w8" {
				return ""
			}
			return "nothing in " + c.CaseID
		})
		if want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
}

func TestIdle(t *testing.T) {
	m := Measurer{Family: copies.Name, Faults: []string{"flip", "swap"}}
	idle := func(kind, at string) string { return m.Idle(Fault{Kind: kind, At: at}, nil) }
	require.Empty(t, idle("flip", FaultAtStart))
	require.Equal(t, "cases of family copy have flip, swap", idle("late", FaultAtStart))
	require.Equal(t, `data faults of family copy have no point "record"; leave at= out`, idle("flip", "record"))
	m.Points = true
	require.Empty(t, idle("flip", "record"))
	m.NoEffect = func(f Fault, _ *plan.Case) string { return f.Kind + " changes nothing" }
	require.Equal(t, "flip changes nothing", idle("flip", FaultAtStart))
}
