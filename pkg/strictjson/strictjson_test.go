package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample is an object with every kind of value.
const sample = `{"version":1,"ok":true,"no":false,"none":null,"list":[1,-0.5e+7,[],{}],"deep":{"a":{"b":"c"}},"text":"é\u00e9\n\"\\ /x","n":{}}`

// object reads any object and returns it without white space between tokens.
func object(text []byte) ([]byte, error) {
	line, err := Screen(text, nil)
	if err != nil {
		return nil, err
	}
	return line, Unmarshal(text, new(struct{}))
}

func TestScreenCompacts(t *testing.T) {
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, []byte(sample), " ", "\t"))
	line, err := object(pretty.Bytes())
	require.NoError(t, err)
	require.True(t, sample == string(line), "%s", line)
}

// Exactly the objects are read that encoding/json reads, and made into what json.Compact does.
func TestReadingAgreesWithEncodingJSON(t *testing.T) {
	for _, s := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":-0.5e+7,"b":[1,2,{"c":null}],"d":true,"e":false}`, `{"a":"\u00e9\n\"\\"}`,
		`{"a":"é"}`, "{\"a\":\"\xff\"}", "{\"a\":\"\x01\"}", `{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":-}`, `{"a":1e}`,
		`{"a":+1}`, `{"a":NaN}`, `{"a":tru}`, `{"a":nul`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":[1,]}`, `{"a":[}`,
		`{"a":"`, `{"a":"\`, `{"a":"\u12`, `{"a":"\u12g4"}`, `{"a":"\x"}`, `{a:1}`, `{"a":1}{`, `{"a":1} x`, ``, ` `, `{`, `[`,
		`{"a":1 2}`, `{"a" 1}`, `{"outcome":1,"identity":[],"version":"1"}`, `{"outcome":{"status":1,"reasons":{"a":2}}}`,
	} {
		agree(t, []byte(s))
	}
	data := []byte(sample)
	for i := range data { // truncated at every byte
		_, err := object(data[:i])
		require.ErrorIs(t, err, ErrTruncated, "%d bytes", i)
		require.ErrorContains(t, err, "ends in the middle of a JSON value")
	}
	rng := rand.New(rand.NewSource(1))
	alphabet := []byte("{}[]\":,\\ntru0123456789.eE+- \t\n\x00\xc3\xa9\xff")
	for range 4000 { // one byte changed, added or removed
		m := bytes.Clone(data)
		i := rng.Intn(len(m))
		switch rng.Intn(3) {
		case 0:
			m[i] = alphabet[rng.Intn(len(alphabet))]
		case 1:
			m = append(m[:i:i], append([]byte{alphabet[rng.Intn(len(alphabet))]}, m[i:]...)...)
		default:
			m = append(m[:i:i], m[i+1:]...)
		}
		agree(t, m)
	}
}

func agree(t *testing.T, data []byte) {
	var want map[string]json.RawMessage
	// encoding/json repairs what is not UTF-8; Unmarshal refuses it.
	ok := json.Unmarshal(data, &want) == nil && json.Valid(data) && want != nil && bytes.Equal(bytes.ToValidUTF8(data, nil), data)
	line, err := object(data)
	if ok && errors.Is(err, ErrForm) { // encoding/json takes the last of two members of a name
		require.ErrorContains(t, err, "duplicate member")
		return
	}
	require.Equal(t, ok, err == nil, "%q: %v", data, err)
	if ok {
		var compact bytes.Buffer
		require.NoError(t, json.Compact(&compact, data))
		require.Equal(t, compact.String(), string(line))
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(sample))
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, data) })
}

func TestReadingBoundsDepth(t *testing.T) {
	deep := `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`
	_, err := object([]byte(deep))
	require.ErrorContains(t, err, "nested deeper than 64")
}

func TestScreenShowsEveryStringThatCouldBePrivate(t *testing.T) {
	var seen []string
	in := `{"plain":"word","a.b":1,"mac":"aa-bb","uuid":"0123456789012345678901234","n":{"path":["\/x"]}}`
	_, err := Screen([]byte(in), NewStrings(func(text string) error { seen = append(seen, text); return nil }))
	require.NoError(t, err)
	require.Equal(t, []string{"a.b", "aa-bb", "0123456789012345678901234", "/x"}, seen)
}
