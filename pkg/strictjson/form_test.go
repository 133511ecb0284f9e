package strictjson

import (
	"bytes"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type formed struct {
	Kind  string         `json:"kind"`
	N     int            `json:"n" in:"ns"`
	X     float64        `json:"x"`
	D     float64        `json:"d,omitempty" sign:"any"`
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

// read reads a text that must be of the form.
func read(text string, v *formed) error { return aForm.Decode([]byte(text), v) }

// A text of the form has the members of the type and no others, of their types
// and values; without the form, it may have more or fewer.
func TestForm(t *testing.T) {
	const good = `{"kind":"one","n":1,"x":0.5,"maybe":null,"rows":[{"at":1},{"at":2}],"names":{"p":1},"a":"","b":""}`
	var v formed
	require.NoError(t, read(good+" \n", &v))
	require.Equal(t, 2, v.Rows[1].At)
	require.NoError(t, read(strings.Replace(good, `"x":0.5`, `"x":-0,"d":-0.5`, 1), new(formed)))
	for _, tc := range []struct {
		old, new, says string
		lenient        bool // is taken where reading is not strict
	}{
		{`"n":1,`, ``, `missing member "n"`, true},
		{`"n":1,`, `"n":1,"y":[{}],`, `unknown member "y"`, true},
		{`"n":1,`, `"n":1,"n":1,`, `duplicate member "n"`, false},
		{`"n":1,`, `"n":3,`, `n: 3 is not one of 1, 2`, true},
		{`"n":1,`, `"n":1.0,`, `n: want an integer, not 1.0`, false},
		{`"n":1,`, `"n":99999999999999999999,`, `n: want an integer, not 99999999999999999999`, false},
		{`"n":1,`, `"n":null,`, `n: null`, true},
		{`"n":1,`, `"N":1,`, `unknown member "N"`, true},
		{`"x":0.5`, `"x":1e999`, `x: want a number, not 1e999`, false},
		{`"x":0.5`, `"x":-0.5`, `x: -0.5 is below 0`, true},
		{`"x":0.5`, `"x":"0.5"`, `x: want a number`, false},
		{`"kind":"one"`, `"kind":"three"`, `kind "three" is not one of one, two`, true},
		{`"maybe":null,`, `"maybe":null,"left":null,`, `left: null`, true},
		{`{"at":2}`, `{"at":true}`, `rows[1].at: want an integer`, false},
		{`[{"at":1},{"at":2}]`, `{}`, `rows: want a list`, false},
		{`"names":{"p":1}`, `"names":{"p":1,"p":1}`, `names: duplicate member "p"`, false},
		{`,"b":""`, ``, `missing member "b"`, true},
		{`"kind":"one",`, ``, `kind "" is not one of one, two`, true},
		{`"kind":"one",`, `"kind":7,`, `kind "7" is not one of one, two`, false},
		{`"kind":"one"`, `"kind":"two"`, `a: want an integer`, true},
		{`"rows":[{"at":1}`, `"rows":[{"at":1,"n":{"x":[]}}`, `rows[0]: unknown member "n"`, true},
		{`"b":""`, `"b":"","kind":"two"`, `duplicate member "kind"`, false},
	} {
		bad := strings.Replace(good, tc.old, tc.new, 1)
		require.NotEqual(t, good, bad)
		err := read(bad, new(formed))
		require.ErrorIs(t, err, ErrForm, bad)
		require.EqualError(t, err, tc.says, bad)
		err = Unmarshal([]byte(bad), new(formed))
		require.Equal(t, tc.lenient, err == nil, "%s: %v", bad, err)
	}
}

// The members of a block are those that another member selects, wherever that one stands.
func TestBlocks(t *testing.T) {
	const text = `{"a":"p","n":1,"x":0,"maybe":null,"rows":[],"b":"q","kind":"one"}`
	require.NoError(t, read(text, new(formed)))
	for i := range text { // also where the selecting member is cut off
		require.ErrorIs(t, read(text[:i], new(formed)), ErrTruncated, "%s", text[:i])
	}
	require.ErrorIs(t, read(text+" {}", new(formed)), ErrSyntax)
	require.PanicsWithValue(t, `strictjson: struct { N int "json:\"n\"" } has two members "n"`, func() {
		New(formed{}, Types{Lists: Lists{"ns": {1}}, Blocks: map[string]any{"three": struct {
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
	_, err := Screen([]byte(text), nil)
	require.ErrorIs(t, err, ErrForm)
	require.EqualError(t, err, "more than one list or object in 16 bytes")
}

type anything struct {
	S    string             `json:"s"`
	T    ladder             `json:"t"`
	B    bool               `json:"b"`
	I    int64              `json:"i" sign:"any"`
	U    uint64             `json:"u"`
	F    float64            `json:"f" sign:"any"`
	P    *float64           `json:"p"`
	List []anything         `json:"list,omitempty"`
	Map  map[string]float64 `json:"map,omitempty"`
}

// ladder has a text form.
type ladder []int

func (l *ladder) UnmarshalText(text []byte) error {
	*l = append(*l, len(text))
	return nil
}

// step is a number with a text form.
type step int

func (s *step) UnmarshalText(text []byte) error {
	*s = step(len(text))
	return nil
}

func TestANumberWithATextFormIsAString(t *testing.T) {
	var v struct {
		S step `json:"s"`
	}
	form := New(v, Types{})
	require.NoError(t, form.Decode([]byte(`{"s":"12"}`), &v))
	require.Equal(t, step(2), v.S)
	require.ErrorIs(t, form.Decode([]byte(`{"s":12}`), &v), ErrForm)
}

// What Decode reads is what Unmarshal reads, and nothing is read that is not JSON.
func TestDecodingAgreesWithUnmarshal(t *testing.T) {
	const one = `{"s":"é\u00e9\n\"\\ /x","t":"1 2","b":true,"i":-12,"u":18446744073709551615,"f":-0.5e+7,"p":null}`
	text := []byte(strings.Replace(one, "null}", `1.25,"list":[`+one+`,`+one+`],"map":{"a":1,"\u00e9":2e3,"c":0.1}}`, 1))
	form := New(anything{}, Types{})
	var whole anything
	require.NoError(t, form.Decode(text, &whole))
	require.Equal(t, "é", string([]rune(whole.List[1].S)[:1]))
	agrees := func(text []byte) {
		var got, want anything
		err, other := form.Decode(text, &got), Unmarshal(text, &want)
		switch {
		case err == nil:
			require.NoError(t, other, "%s", text)
			require.Equal(t, want, got, "%s", text)
		case other == nil:
			require.ErrorIs(t, err, ErrForm, "%s", text)
		}
	}
	for i := range text {
		require.ErrorIs(t, form.Decode(text[:i], &anything{}), ErrTruncated, "%s", text[:i])
	}
	rng := rand.New(rand.NewSource(1))
	alphabet := []byte("{}[]\":,\\ntru0123456789.eE+- \t\n\x00\xc3\xa9\xff")
	for range 20_000 { // a byte or two changed, added or removed
		m := bytes.Clone(text)
		for range 1 + rng.Intn(2) {
			i := rng.Intn(len(m))
			m = slices.Replace(m, i, i+rng.Intn(2), slices.Repeat(alphabet[rng.Intn(len(alphabet)):][:1], rng.Intn(2))...)
		}
		agrees(m)
	}
}
