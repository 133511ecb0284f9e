package rank

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadSortsRecords reads a stream with every way to take a record, and names the first
// record that a family cannot take.
func TestReadSortsRecords(t *testing.T) {
	type point struct{ At, Value int }
	var last *point
	var all []point
	at := map[int]point{}
	kinds := Kinds{
		"last":  Last(&last),
		"all":   Append(&all),
		"index": Index(at, func(p point) int { return p.At }),
		"each": Each(func(p point) error {
			if p.Value < 0 {
				return errors.New("negative value")
			}
			return nil
		}),
	}
	record := func(kind, data string) Record { return Record{Kind: kind, Data: []byte(data)} }
	good := []Record{
		record("last", `{"At":1,"Value":2}`), record("last", `{"Value":3}`),
		record("all", `{"At":1}`), record("all", `{"At":2}`),
		record("index", `{"At":7,"Value":1}`), record("index", `{"At":7,"Value":2}`), record("index", `{"At":8}`),
		record("each", `{}`),
	}
	require.NoError(t, Stream{Records: good}.Read(kinds))
	require.Equal(t, &point{Value: 3}, last, "nothing of the record before it")
	require.Equal(t, []point{{At: 1}, {At: 2}}, all)
	require.Equal(t, map[int]point{7: {7, 2}, 8: {At: 8}}, at)

	for bad, want := range map[string]string{
		"other": `record 9: unknown kind "other"`,
		"all":   "record 9 (all): json: cannot unmarshal",
		"each":  "record 9 (each): negative value",
	} {
		data := map[string]string{"all": `[1]`, "each": `{"Value":-1}`}[bad]
		err := Stream{Records: append(slices.Clip(good), record(bad, data), record("last", `{"Value":9}`))}.Read(kinds)
		require.ErrorContains(t, err, want)
		require.Equal(t, 3, last.Value, "no record after the bad one is read")
	}
}
