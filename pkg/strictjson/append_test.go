package strictjson

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type written struct {
	Text  string            `json:"text"`
	Left  string            `json:"left,omitempty"`
	N     int               `json:"n"`
	Big   uint64            `json:"big,omitempty"`
	Real  float64           `json:"real"`
	Part  float64           `json:"part,omitempty"`
	Sure  bool              `json:"sure"`
	Seen  bool              `json:"seen,omitempty"`
	Maybe *string           `json:"maybe"`
	None  *int              `json:"none,omitempty"`
	List  []int64           `json:"list"`
	Table [][]int64         `json:"table,omitempty"`
	Words []string          `json:"words,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	Inner struct {
		A int `json:"a"`
	} `json:"inner"`
	Unseen string `json:"-"`
}

// What is written is what encoding/json writes, and reads back as what it was.
func TestWriterAgreesWithEncodingJSON(t *testing.T) {
	w, f := NewWriter[written](), New(written{}, Types{})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a", "<&>", "\"\\", "\u2028", "é", "\x00"}))
		v := written{
			Text: text.Draw(t, "text"), Left: text.Draw(t, "left"), N: rapid.Int().Draw(t, "n"), Big: rapid.Uint64().Draw(t, "big"),
			Real: rapid.Float64().Draw(t, "real"), Part: rapid.Float64().Draw(t, "part"),
			Sure: rapid.Bool().Draw(t, "sure"), Seen: rapid.Bool().Draw(t, "seen"),
			List:  rapid.SliceOf(rapid.Int64()).Draw(t, "list"),
			Table: rapid.SliceOf(rapid.SliceOf(rapid.Int64())).Draw(t, "table"),
			Words: rapid.SliceOf(text).Draw(t, "words"),
			Env:   rapid.MapOf(text, text).Draw(t, "env"),
		}
		if rapid.Bool().Draw(t, "maybe") {
			v.Maybe = &v.Text
		}
		if rapid.Bool().Draw(t, "nil") {
			v.List = nil
		}
		want, err := json.Marshal(v)
		require.NoError(t, err)
		require.Equal(t, string(want), string(w.Append(nil, &v)))
		var again written
		_, err = f.Read(Input{Text: want}, &again)
		require.NoError(t, err)
		require.Equal(t, string(want), string(w.Append(nil, &again)))
	})
}
