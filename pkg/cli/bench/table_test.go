package bench

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/result"
)

// Thresholds of transfers and copies are for all sizes or for one.
func TestLimitsByRow(t *testing.T) {
	rows := []Measured{{"a", 1 << 20, 3, 350}, {"b", 64 << 20, 5, 13400}}
	for _, tt := range []struct{ rates, times, want []string }{
		{[]string{"2", "64M=4"}, []string{"1M=400", "64M=14000"}, nil},
		{[]string{"4"}, nil, []string{"t, a: 3.00 GB/s, and --min-gbps is 4"}},
		{[]string{"64M=6"}, nil, []string{"t, b: 5.00 GB/s, and --min-gbps is 6"}},
		{[]string{"4", "64M=6"}, nil, []string{"t, a: 3.00 GB/s, and --min-gbps is 4", "t, b: 5.00 GB/s, and --min-gbps is 6"}},
		{[]string{"1=2"}, nil, []string{"t, no row of 1 byte was measured, and --min-gbps is 2"}},
		{nil, []string{"1M=300"}, []string{"t, a: 350 us, and --max-time is 300"}},
		{[]string{"2M=1"}, nil, []string{"t, no row of 2097152 bytes was measured, and --min-gbps is 1"}},
	} {
		limits, err := ParseLimits(MinGBps, tt.rates, tt.times, nil)
		require.NoError(t, err)
		require.Equal(t, tt.want, limits.Broken("t", rows))
	}
	for want, tt := range map[string]struct{ rates, times []string }{
		`--min-gbps "fast": write GBPS or SIZE=GBPS, such as 1M=40`: {[]string{"fast"}, nil},
		`--min-gbps 1M=0: want a value above 0`:                     {[]string{"1M=0"}, nil},
		`--min-gbps -1: want a value above 0`:                       {[]string{"-1"}, nil},
		`--max-time 1M=-Inf: want a value above 0`:                  {nil, []string{"1M=-Inf"}},
		`--min-gbps "nan": write GBPS or SIZE=GBPS, such as 1M=40`:  {[]string{"nan"}, nil},
		`--min-gbps "inf": write GBPS or SIZE=GBPS, such as 1M=40`:  {[]string{"inf"}, nil},
		`--min-gbps "4": duplicate threshold for all sizes`:         {[]string{"3", "4"}, nil},
		`--max-time "35": write SIZE=US, such as 1M=35.5`:           {nil, []string{"35"}},
		`--max-time "1024=2": duplicate threshold for 1024 bytes`:   {nil, []string{"1K=1", "1024=2"}},
		`--min-gbps: invalid size "": want bytes, or a number with K, M or G (powers of 1024, also as MB or MiB), such as 8, 1.5K, 32M or 4G`: {[]string{"=3"}, nil},
	} {
		_, err := ParseLimits(MinGBps, tt.rates, tt.times, nil)
		require.EqualError(t, err, want)
	}
}

func TestVerdict(t *testing.T) {
	good := result.Outcome{Status: result.Success}
	lacks := result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons("refused: rank 0", "symbol-missing: rank 1")}
	died := result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons("rank-died: rank 1 signal 9", "refused: rank 0")}
	wrong := result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}}}
	for _, tt := range []struct {
		outcomes []result.Outcome
		lenient  bool
		broken   int
		differ   int
		code     int
		text     string
	}{
		{[]result.Outcome{good, good}, false, 0, 0, cli.ExitOK, ""},
		{[]result.Outcome{good, lacks}, false, 0, 0, cli.ExitEnvironment, "1 of 2 cases cannot be measured here"},
		{[]result.Outcome{good, lacks}, true, 0, 0, cli.ExitOK, ""},
		{[]result.Outcome{lacks, lacks}, true, 0, 0, cli.ExitEnvironment, "2 of 2 cases cannot be measured here"},
		{[]result.Outcome{good, lacks, died}, true, 0, 0, cli.ExitFailed, "1 of 3 cases failed"},
		{[]result.Outcome{wrong}, false, 0, 0, cli.ExitFailed, "1 of 1 case failed"},
		{[]result.Outcome{good}, false, 2, 0, cli.ExitFailed, "2 figures missed their threshold"},
		{[]result.Outcome{good}, false, 0, 2, cli.ExitFailed, "2 results are not repeatable"},
		{[]result.Outcome{good}, false, 1, 1, cli.ExitFailed, "1 figure missed its threshold, 1 result is not repeatable"},
	} {
		v := verdict{lenient: tt.lenient, broken: tt.broken, unrepeatable: tt.differ}
		for _, o := range tt.outcomes {
			v.add(o)
		}
		err := v.err(0)
		if tt.code == cli.ExitOK {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, tt.text)
		var exit *cli.ExitError
		require.Equal(t, tt.code == cli.ExitEnvironment, errors.As(err, &exit))
	}
}

// A rate below 1 GB/s has three digits, in the column of the others.
func TestRatesOfSlowLanes(t *testing.T) {
	for gbps, want := range map[float64]string{
		0: "0", 412.345: "412.35", 1: "1.00", 0.9996: "1.000", 0.5: "0.500", 0.01234: "0.0123", 0.0000156: "1.56e-05", 0.000000156: "1.56e-07",
	} {
		require.Equal(t, want, Rate(gbps))
	}
	require.Equal(t, []string{"t: 0.000391 GB/s, and --min-gbps is 1"}, Limits{{MinGBps, everySize, 1}}.Broken("", []Measured{{"t", 8, 0.000390625, 1}}))
}

// Times of a column have the same width.
func TestMicros(t *testing.T) {
	for us, want := range map[float64]string{0.418: "0.42", 840.15: "840.15", 9999.99: "9999.99", 45678.91: "45678.9", 1234567.89: "1234568"} {
		require.Equal(t, want, Micros(us))
	}
}

// All units are binary, as in nccl-tests, which ignores what follows K, M and G.
func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"8": 8, "1.5K": 1536, "1k": 1 << 10, "1M": 1 << 20, "1MB": 1 << 20, "1MiB": 1 << 20, "1 mib": 1 << 20, "0.5GB": 1 << 29, "4GiB": 4 << 30,
	} {
		got, err := ParseSize(text)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "M", "MiB", "1Mi", "1iB", "1MM", "1TB", "-1M", "nan"} {
		_, err := ParseSize(text)
		require.Error(t, err, text)
	}
}
