package strictjson

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type formed struct {
	Kind  string         `json:"kind"`
	N     int            `json:"n"`
	X     float64        `json:"x"`
	Maybe *int           `json:"maybe"`
	Left  *int           `json:"left,omitempty"`
	Rows  []formedRow    `json:"rows"`
	Names map[string]int `json:"names,omitempty"`
	*formedBlock
}

type formedRow struct {
	At    int      `json:"at"`
	Large [64]byte `json:"-"`
}

type formedBlock struct {
	A string `json:"a"`
	B string `json:"b"`
}

var aForm = New[formed](Lists{"formed.kind": {"one", "two"}, "formed.n": {1, 2}}, nil)

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
		{`"n":1,`, ``, `no member "n"`, true},
		{`"n":1,`, `"n":1,"y":[{}],`, `unknown member "y"`, true},
		{`"n":1,`, `"n":1,"n":1,`, `member "n" stands twice`, false},
		{`"n":1,`, `"n":3,`, `n: 3 is none of [1 2]`, true},
		{`"n":1,`, `"n":1.0,`, `n: want an integer, not 1.0`, false},
		{`"n":1,`, `"n":99999999999999999999,`, `n: want an integer, not 99999999999999999999`, false},
		{`"n":1,`, `"n":null,`, `n: null`, true},
		{`"n":1,`, `"N":1,`, `unknown member "N"`, true},
		{`"x":0.5`, `"x":1e999`, `x: 1e999 is too large a number`, false},
		{`"x":0.5`, `"x":"0.5"`, `x: want a number`, false},
		{`"kind":"one"`, `"kind":"three"`, `kind: "three" is none of one, two`, true},
		{`"maybe":null,`, `"maybe":null,"left":null,`, `left: null`, true},
		{`{"at":2}`, `{"at":true}`, `rows[1].at: want an integer`, false},
		{`[{"at":1},{"at":2}]`, `{}`, `rows: want a list`, false},
		{`"names":{"p":1}`, `"names":{"p":1,"p":1}`, `names: member "p" stands twice`, false},
		{`,"b":""`, ``, `no member "b"`, true}, // a block is there as a whole
		{`,"a":"","b":""`, ``, ``, true},       // or not at all
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

// A text of three bytes an element does not become a value many times its size.
func TestReadingBoundsMemory(t *testing.T) {
	text := `{"rows":[` + strings.Repeat(`{},`, 1<<20) + `{}]}`
	_, err := aForm.Read(Input{Text: []byte(text)}, new(formed))
	require.ErrorContains(t, err, "rows: elements take far more memory than text")
}
