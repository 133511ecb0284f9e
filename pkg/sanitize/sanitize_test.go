package sanitize_test

import (
	"html"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/sanitize"
)

// hostile are texts that a cell could leave in a document or a file's name.
var hostile = []string{
	"", "plain", "rank 1 to rank 0: 12.5 µs × 3 – ok", `back\slash`,
	"x ##[add-mask]success", "##[[", "#\n#[error]", "###[group]", "::error::x", "a:::b", ":\n:error::", " ::stop-commands::x", "::", "std::string",
	"two\nlines", "cr\rlf\r\n", "nul\x00", "\x1b[31mred\x1b[0m", "\u009b31m", "\u202egnp.exe", "\u2066x\u2069", "zero\u200bwidth", "sep\u2028\u2029", "\ufeffbom", "nbsp\u00a0",
	"not \xff\xfe UTF-8", "\xc3", "</summary><img src=x onerror=alert(1)>", "**strong** _em_ `code` [a](http://b) ![i](c) | cell | ~~x~~ $x$ # h @user &lt; <!-- -->",
}

// check holds what the package promises of any text.
func check(t *testing.T, text string) {
	line := sanitize.Line(text)
	require.True(t, utf8.ValidString(line))
	for _, r := range line {
		require.True(t, unicode.IsPrint(r), "%q in %q", r, line)
	}
	require.NotContains(t, line, "::")
	require.NotContains(t, line, "##[")
	require.Equal(t, line, sanitize.Line(line))

	lines := sanitize.Lines(text)
	require.Equal(t, strings.Count(text, "\n"), strings.Count(lines, "\n"))
	for l := range strings.SplitSeq(lines, "\n") {
		require.Equal(t, sanitize.Line(l), l)
	}

	for _, page := range []string{sanitize.Markdown(text), sanitize.HTML(text)} {
		require.NotContains(t, page, "\n")
		require.NotContains(t, page, "<")
		require.NotContains(t, page, ">")
		require.NotContains(t, page, "::")
		require.NotContains(t, page, "##[")
	}
	in := sanitize.HTML(text)
	require.Equal(t, line, html.UnescapeString(in), "a reader sees the line")
	require.False(t, strings.ContainsAny(in, "\\|`*_[]~$@<>\"'"), in)
}

func TestForeignText(t *testing.T) {
	for _, text := range hostile {
		check(t, text)
	}
	for text, want := range map[string]string{
		"plain µs – ×":          "plain µs – ×",
		"a\n\x1b[1m\x00\u202e":  `a\n\x1b[1m\x00\u202e`,
		"x ##[add-mask]success": `x ##\[add-mask]success`,
		"::error::no":           `:\:error:\:no`,
		"a:::b":                 `a:\:\:b`,
		"\xff":                  `\xff`,
	} {
		require.Equal(t, want, sanitize.Line(text))
	}
	require.Equal(t, "first\nsecond :\\:error\\x1b", sanitize.Lines("first\nsecond ::error\x1b"))
	require.Equal(t, `all\_reduce \| \[x\]`, sanitize.Markdown("all_reduce | [x]"))
	require.Equal(t, "&#42;&#42;x&#42;&#42; &lt;/summary&gt;", sanitize.HTML("**x** </summary>"))
}

func FuzzForeign(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(check)
}
