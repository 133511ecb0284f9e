package strictyaml

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Mistakes are said in a line without the types of Go.
func TestDecode(t *testing.T) {
	type part struct {
		Count int                `yaml:"count"`
		Cost  float64            `yaml:"cost"`
		Name  string             `yaml:"name"`
		Sizes []int64            `yaml:"sizes"`
		Parts map[string]*part   `yaml:"parts"`
		Times map[int64]*float64 `yaml:"times"`
	}
	for _, tt := range []struct{ data, want string }{
		{"count: 3\n", ""},
		{"---\ncount: 3\n...\n", ""},
		{"", "the file is empty"},
		{"# nothing\n", "the file is empty"},
		{"count: 3\n---\ncount: 4\n", "the file has more than one YAML document: keep one"},
		{"count: 3\n---\ncount: [\n", "line 3: did not find expected node content"},
		{"count: 1\nmany: 3\n", `line 2: unknown key "many"`},
		{"count: x\ncost: y\n", `line 1: invalid value "x": want an integer`},
		{"cost: x\n", `line 1: invalid value "x": want a number`},
		{"times: {1: x}\n", `line 1: invalid value "x": want a number`},
		{"sizes: 3\n", `line 1: invalid value "3": want a list`},
		{"sizes: {a: 3}\n", "line 1: unexpected keys with values: want a list"},
		{"name: {a: 3}\n", "line 1: unexpected keys with values: want a single value"},
		{"name: [3]\n", "line 1: unexpected list: want a single value or keys with values"},
		{"parts: {a: 3}\n", `line 1: invalid value "3": want keys with values`},
		{"three\n", `line 1: invalid value "three": want keys with values`},
		{"count: 1\ncount: 2\n", `line 2: mapping key "count" already defined at line 1`},
		{"a: [", "line 1: did not find expected node content"},
	} {
		var p part
		err := Decode([]byte(tt.data), &p)
		if tt.want == "" {
			require.NoError(t, err, tt.data)
			require.Equal(t, 3, p.Count)
			continue
		}
		require.EqualError(t, err, tt.want, tt.data)
	}
}

// The parts of a document have lines.
func TestLine(t *testing.T) {
	const data = "title: cases\nmodels:\n  a:\n    cost: 1\n  b: {cost: 2}\ncases:\n  - {name: a}\n  - name: b\n"
	for _, tt := range []struct {
		line int
		path []any
	}{
		{1, []any{"title"}},
		{3, []any{"models", "a"}},
		{5, []any{"models", "b"}},
		{7, []any{"cases", 0}},
		{8, []any{"cases", 1}},
		{8, []any{"cases", 1, "name"}},
		{0, nil},
		{0, []any{"cases", 2}},
		{0, []any{"cases", "a"}},
		{0, []any{"models", 0}},
		{0, []any{"models", "c"}},
	} {
		require.Equal(t, tt.line, Line([]byte(data), tt.path...), "%v", tt.path)
	}
	require.Zero(t, Line([]byte("a: ["), "a"))
	require.Zero(t, Line(nil, "a"))
}
