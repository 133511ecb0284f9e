package strictjson

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type formed struct {
	Kind  string         `json:"kind"`
	N     int            `json:"n" in:"ns"`
	X     float64        `json:"x"`
	Maybe *int           `json:"maybe"`
	Left  *int           `json:"left,omitempty"`
	Rows  []formedRow    `json:"rows"`
	Names map[string]int `json:"names,omitempty"`
	Block any            `json:"-" block:"kind"`
}

type formedRow struct {
	At    int      `json:"at"`
	Large [64]byte `json:"-"`
}

type blockOne struct {
	A string `json:"a"`
	B string `json:"b"`
}

type blockTwo struct {
	A int `json:"a" in:"as"`
}

var aForm = New(formed{}, Types{
	Lists:  Lists{"ns": {1, 2}, "as": {3}},
	Blocks: map[string]any{"one": blockOne{}, "two": blockTwo{}},
})

// Strictly read, a text has the members of the type and no others, of their types
// and values; read otherwise, it may have more or fewer.
func TestStrictReading(t *testing.T) {
	const good = `{"kind":"one","n":1,"x":0.5,"maybe":null,"rows":[{"at":1},{"at":2}],"names":{"p":1},"a":"","b":""}`
	var v formed
	line, err := aForm.Read(Input{Text: []byte(good + " \n"), Strict: true}, &v)
	require.NoError(t, err)
	require.True(t, good == string(line))
	require.Equal(t, 2, v.Rows[1].At)
	for _, tc := range []struct {
		old, new, says string
		lenient        bool // is taken where reading is not strict
	}{
		{`"n":1,`, ``, `missing member "n"`, true},
		{`"n":1,`, `"n":1,"y":[{}],`, `unknown member "y"`, true},
		{`"n":1,`, `"n":1,"n":1,`, `duplicate member "n"`, false},
		{`"n":1,`, `"n":3,`, `n: 3 is not one of [1 2]`, true},
		{`"n":1,`, `"n":1.0,`, `n: want an integer, not 1.0`, false},
		{`"n":1,`, `"n":99999999999999999999,`, `n: want an integer, not 99999999999999999999`, false},
		{`"n":1,`, `"n":null,`, `n: null`, true},
		{`"n":1,`, `"N":1,`, `unknown member "N"`, true},
		{`"x":0.5`, `"x":1e999`, `x: number 1e999 is too large`, false},
		{`"x":0.5`, `"x":"0.5"`, `x: want a number`, false},
		{`"kind":"one"`, `"kind":"three"`, `kind "three" is not one of one, two`, false},
		{`"maybe":null,`, `"maybe":null,"left":null,`, `left: null`, true},
		{`{"at":2}`, `{"at":true}`, `rows[1].at: want an integer`, false},
		{`[{"at":1},{"at":2}]`, `{}`, `rows: want a list`, false},
		{`"names":{"p":1}`, `"names":{"p":1,"p":1}`, `names: duplicate member "p"`, false},
		{`,"b":""`, ``, `missing member "b"`, true},
		{`"kind":"one",`, ``, `kind "" is not one of one, two`, false},
		{`"kind":"one",`, `"kind":7,`, `kind "" is not one of one, two`, false},
		{`"kind":"one"`, `"kind":"two"`, `a: want an integer`, false},
		{`"b":""`, `"b":"","kind":"two"`, `duplicate member "kind"`, false},
	} {
		bad := strings.Replace(good, tc.old, tc.new, 1)
		require.NotEqual(t, good, bad)
		_, err := aForm.Read(Input{Text: []byte(bad), Strict: true}, new(formed))
		if tc.says == "" {
			require.NoError(t, err, bad)
		} else {
			require.ErrorIs(t, err, ErrForm, bad)
			require.EqualError(t, err, tc.says, bad)
		}
		_, err = aForm.Read(Input{Text: []byte(bad)}, new(formed))
		require.Equal(t, tc.lenient, err == nil, "%s: %v", bad, err)
	}
}

// A block is of the type that another member says, wherever that one stands, and
// what was read is written again.
func TestBlocks(t *testing.T) {
	w := NewWriter[struct {
		Kind  string `json:"kind"`
		Block any    `json:"-" block:"kind"`
	}]()
	for _, text := range []string{
		`{"kind":"one","n":1,"x":0,"maybe":null,"rows":[],"a":"p","b":"q"}`,
		`{"a":"p","n":1,"x":0,"maybe":null,"rows":[],"b":"q","kind":"one"}`,
	} {
		var v formed
		_, err := aForm.Read(Input{Text: []byte(text), Strict: true}, &v)
		require.NoError(t, err)
		require.Equal(t, &blockOne{"p", "q"}, v.Block)
		got := w.Append(nil, &struct {
			Kind  string `json:"kind"`
			Block any    `json:"-" block:"kind"`
		}{v.Kind, v.Block})
		require.True(t, string(got) == `{"kind":"one","a":"p","b":"q"}`, "%s", got)
	}
	require.PanicsWithValue(t, `strictjson: strictjson.formed has two members "n"`, func() {
		New(formed{}, Types{Blocks: map[string]any{"three": struct {
			N int `json:"n"`
		}{}}})
	})
	require.PanicsWithValue(t, "strictjson: no closed list is called as", func() {
		New(blockTwo{}, Types{Lists: Lists{"ns": {1}}})
	})
}

// A text of three bytes an element does not become a value many times its size.
func TestReadingBoundsMemory(t *testing.T) {
	text := `{"kind":"one","rows":[` + strings.Repeat(`{},`, 1<<20) + `{}]}`
	_, err := aForm.Read(Input{Text: []byte(text)}, new(formed))
	require.ErrorContains(t, err, "rows: elements take far more memory than text")
}
