package collective_test

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/strictyaml"
)

func TestParseTraffic(t *testing.T) {
	traffic, err := collective.ParseTraffic("dir/hot-3.txt", []byte("\n 0 16\t4\r\n\n8 0 0\r\n100 0 0"))
	require.NoError(t, err)
	require.Equal(t, "hot-3", traffic.Name)
	require.Equal(t, [][]int64{{0, 16, 4}, {8, 0, 0}, {100, 0, 0}}, traffic.Bytes)
	require.Equal(t, 3, traffic.Ranks())
	require.NoError(t, traffic.Whole("float"))
	require.EqualError(t, traffic.Whole("double"), "dir/hot-3.txt:2:7: 4 bytes are not a whole number of double elements of 8 bytes; 1 more like this")
}

func TestTrafficDiagnostics(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", " \n", "t.txt:1:1: the file is empty"},
		{"too few rows", "1 2 3\n1 2 3\n", "t.txt:2:1: 2 rows of 3 numbers: a traffic matrix must be square"},
		{"too many rows", "1 2\n1 2\n1 2\n", "t.txt:3:1: 3 rows of 2 numbers: a traffic matrix must be square"},
		{"a short row", "1 2 3\n1 2\n1 2 3\n", "t.txt:2:3: row of 2 numbers, but the first row has 3"},
		{"a long row", "1 2\n1 2 3\n", "t.txt:2:5: row of 3 numbers, but the first row has 2"},
		{"negative", "1 -2\n3 4\n", "t.txt:1:3: bytes must not be negative: -2"},
		{"no number", "1 2\n3 4k\n", `t.txt:2:3: bytes must be a whole number, not "4k"`},
		{"a fraction", "1 2\n3.5 4\n", `t.txt:2:1: bytes must be a whole number, not "3.5"`},
		{"a sign", "1 2\n+3 4\n", `t.txt:2:1: bytes must be a whole number, not "+3"`},
		{"beyond numbers", "1 99999999999999999999\n3 4\n", `t.txt:1:3: bytes must be a whole number, not "99999999999999999999"`},
		{"beyond memories", "1 1125899906842625\n3 4\n", "t.txt:1:3: bytes must be at most 1125899906842624, not 1125899906842625"},
		{"nothing", "0 0\n0 0\n", "t.txt:1:1: no rank sends anything: all numbers are 0"},
		{"several", "1 x\n-3 4\n5 6\n", "t.txt:1:3: bytes must be a whole number, not \"x\"\nt.txt:2:1: bytes must not be negative: -3\nt.txt:3:1: 3 rows of 2 numbers: a traffic matrix must be square"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := collective.ParseTraffic("t.txt", []byte(c.text))
			require.EqualError(t, err, c.want)
		})
	}
}

// What is wrong with a file that a suite names is said with the other diagnostics,
// once, where it is.
func TestTrafficOfASuite(t *testing.T) {
	load := func(file, text string) error {
		defs := plantest.Definitions()
		defs["suites/mine.yaml"] = &fstest.MapFile{Data: []byte(`platforms: [local]
sampling: smoke
collective:
  - backends: [host]
    ops: [alltoallv]
    dtypes: [float, half]
    redops: [sum]
    traffic: ` + file + `
    placements: [out_of_place]
    modes: [pipelined]
    buffers: [warm]
    registrations: [none]
`)}
		defs[file] = &fstest.MapFile{Data: []byte(text)}
		_, err := catalog.Load(defs)
		return err
	}
	for _, c := range []struct{ name, text, want string }{
		{"torn", "0 64\n16\n", "traffic/pair.txt:2:1: "},
		{"elements", "0 64\n18 15\n", "traffic/pair.txt:2:1: 18 bytes … float … 1 more … \ntraffic/pair.txt:2:4: 15 bytes … half"},
		{"ranks", "0 64 0\n16 8 0\n0 0 0", "suites/mine.yaml:8:14: traffic/pair.txt has 3 ranks, but no platform of the suite runs a backend of this block at that world size; they have 2, 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := load("traffic/pair.txt", c.text)
			require.Error(t, err)
			wording.Has(t, err.Error(), c.want)
		})
	}
	require.ErrorContains(t, load("traffic/A pair.txt", "0 64\n16 8\n"), `suites/mine.yaml:8:14: invalid name "A pair"`)
}

func TestShippedTraffic(t *testing.T) {
	cat := plantest.Shipped()
	var names []string
	for _, s := range cat.Suites {
		for _, b := range s.Blocks["collective"] {
			if t := b.(*collective.SuiteBlock).Traffic; t != nil {
				names = append(names, t.Name)
			}
		}
	}
	require.Equal(t, []string{"skewed-8", "skewed-4"}, slices.Compact(names))
}

// FuzzTraffic reads any bytes as traffic: it never panics, whatever it says has a
// position, and traffic that is sound is square.
func FuzzTraffic(f *testing.F) {
	f.Add([]byte("0 1024\n2048 0\n"))
	f.Add([]byte("1\t2 3\r\n\n4 5 6\n7 8 9"))
	f.Add([]byte("-1 +2\nx 99999999999999999999"))
	f.Fuzz(func(t *testing.T, data []byte) {
		traffic, err := collective.ParseTraffic("traffic.txt", data)
		if err == nil {
			for _, row := range traffic.Bytes {
				require.Len(t, row, traffic.Ranks())
			}
			err = traffic.Whole("double")
		}
		if err == nil {
			return
		}
		var diagnostics strictyaml.Errors
		require.ErrorAs(t, err, &diagnostics)
		for _, d := range diagnostics {
			require.Positive(t, d.Line)
			require.Positive(t, d.Col)
		}
	})
}
