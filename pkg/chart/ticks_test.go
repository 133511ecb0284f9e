package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An axis has two to ten labels, none twice, whatever it reaches over.
func TestTicks(t *testing.T) {
	labels := func(m Ticker, least, most float64) (out []string) {
		for _, tick := range m(least, most) {
			require.GreaterOrEqual(t, tick.Value, least)
			require.LessOrEqual(t, tick.Value, most)
			if tick.Label != "" {
				require.NotContains(t, out, tick.Label)
				out = append(out, tick.Label)
			}
		}
		return out
	}
	for _, tt := range []struct {
		m           Ticker
		least, most float64
		want        []string
	}{
		{Decades, 1.6, 36, []string{"2", "5", "10", "20"}},
		{Decades, 0.05, 1, []string{"0.05", "0.1", "0.2", "0.5", "1"}},
		{Decades, 1, 1e6, []string{"1", "10", "100", "1000", "10000", "100000", "1000000"}},
		{Decades, 5.1, 7.3, []string{"5.5", "6", "6.5", "7"}},
		{Decades, 0.541, 1.385, []string{"0.6", "0.7", "0.8", "0.9", "1", "1.1", "1.2", "1.3"}},
		{Decades, 2.1, 9.9, []string{"3", "4", "5", "6", "7", "8", "9"}},
		{Powers(true), 4096, 262144, []string{"4K", "8K", "16K", "32K", "64K", "128K", "256K"}},
		{Powers(true), 16, 98304, []string{"16", "64", "256", "1K", "4K", "16K", "64K"}},
		{Powers(true), 1, 1 << 41, []string{"1", "32", "1K", "32K", "1M", "32M", "1G", "32G", "1T"}},
		{Decades, 0.9e-300, 3e-300, []string{"1e-300", "2e-300"}},
		{Even, 0, 4e300, []string{"0", "5e+299", "1e+300", "1.5e+300", "2e+300", "2.5e+300", "3e+300", "3.5e+300", "4e+300"}},
		{Powers(true), 5000, 7000, []string{"5000", "5500", "6000", "6500", "7000"}},
	} {
		require.Equal(t, tt.want, labels(tt.m, tt.least, tt.most))
	}
	for least := 1e-3; least < 1e12; least *= 3.7 {
		for ratio := 1.1; ratio < 1e13; ratio *= 2.9 {
			for i, m := range []Ticker{Decades, Powers(true)} {
				n := len(labels(m, least, least*ratio))
				require.True(t, n >= 2 && n <= maxLabels, "ticker %d from %g to %g: %d labels", i, least, least*ratio, n)
			}
		}
	}
}

// A size has the largest unit in which it is a whole number.
func TestSize(t *testing.T) {
	for n, want := range map[int64]string{1: "1", 1000: "1000", 65536: "64K", 98304: "96K", 100_000: "100000", 4 << 20: "4M", 3 << 50: "3072T"} {
		require.Equal(t, want, Size(n))
	}
}
