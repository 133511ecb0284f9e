// Package sanitize makes text safe to print that this program did not write itself: text
// from documents, definitions, file names, libraries and command lines. Such text could
// otherwise forge lines of a log, control a terminal, command the Actions runner that reads
// the log, or format the page of a job.
package sanitize

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns text as part of one line of a terminal or log. Characters that do not print
// by themselves (control, bidirectional and other format characters, line separators, bytes
// that are not UTF-8) become Go escapes such as \n or \u202e. The two ways to command an
// Actions runner get a backslash: ":\:" and "##\[". Line(Line(x)) is Line(x).
func Line(text string) string {
	var b strings.Builder
	last, before := rune(0), rune(0) // written so far
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[i])|0x100, 16)[1:])
		case !unicode.IsPrint(r):
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		case r == ':' && last == ':', r == '[' && last == '#' && before == '#':
			b.WriteByte('\\')
			fallthrough
		default:
			b.WriteRune(r)
		}
		before, last = last, r
		i += size
	}
	return b.String()
}

// Lines applies Line to each line of text, and keeps the newlines.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = Line(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Markdown returns text as one line of inline Markdown that shows its characters as they
// are, also in a cell of a table.
func Markdown(text string) string { return markdown.Replace(Line(text)) }

// HTML returns text as one line of HTML inside Markdown, such as in a <summary>, without
// any HTML or Markdown syntax.
func HTML(text string) string { return entities.Replace(Line(text)) }

var (
	markdown = strings.NewReplacer(
		"\\", `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "~", `\~`, "#", `\#`, "$", `\$`,
		"<", "&lt;", ">", "&gt;", "&", "&amp;", "@", "&#64;",
	)
	entities = strings.NewReplacer(
		"\\", "&#92;", "|", "&#124;", "`", "&#96;", "*", "&#42;", "_", "&#95;", "[", "&#91;", "]", "&#93;", "~", "&#126;", "#", "&#35;", "$", "&#36;",
		"<", "&lt;", ">", "&gt;", "&", "&amp;", "@", "&#64;", `"`, "&#34;", "'", "&#39;",
	)
)
