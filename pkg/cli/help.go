package cli

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is the width of help that is not written to a terminal.
const helpWidth = 80

// fitHelp makes the help of all commands fit the terminal.
func fitHelp(s Streams, root *cobra.Command) {
	write := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		width, ok := s.Terminal(s.Out)
		if !ok {
			width = helpWidth
		}
		out := c.OutOrStdout()
		var text bytes.Buffer
		c.SetOut(&text)
		write(c, args)
		c.SetOut(out)
		_, _ = io.WriteString(out, fit(text.String(), width)) // Execute reports its error
	})
}

var (
	// described is a line of a flag, command or list: the name, a gap of several spaces, the description.
	described = regexp.MustCompile(`^( +\S+(?: \S+)* {2,})(\S.*)$`)
	// command is an example, which a shell reads on several lines too.
	command = regexp.MustCompile(`^ +cx(?:run|gen) `)
)

// fit breaks the lines of a help text that are longer than width: a paragraph is filled again, a description goes on
// below its beginning, and an example with a backslash.
func fit(text string, width int) string {
	var out strings.Builder
	var paragraph []string
	end := func() {
		long := false
		for _, line := range paragraph {
			long = long || utf8.RuneCountInString(line) > width
		}
		if long {
			paragraph = []string{filled("", strings.Join(paragraph, " "), 0, width, "")}
		}
		for _, line := range paragraph {
			out.WriteString(line + "\n")
		}
		paragraph = nil
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		end()
		if utf8.RuneCountInString(line) > width {
			line = hung(line, width)
		}
		out.WriteString(line + "\n")
	}
	end()
	return out.String()
}

// hung breaks an indented line.
func hung(line string, width int) string {
	rest := strings.TrimLeft(line, " ")
	head := line[:len(line)-len(rest)]
	if command.MatchString(line) {
		return filled(head, rest, len(head)+4, width, ` \`)
	}
	if m := described.FindStringSubmatch(line); m != nil {
		head, rest = m[1], m[2]
	}
	return filled(head, rest, min(utf8.RuneCountInString(head), width*2/3), width, "")
}

// filled returns the words of text in lines of at most width, where no word is longer: the first after head, the
// others after hang spaces. All but the last end with more.
func filled(head, text string, hang, width int, more string) string {
	var out strings.Builder
	line, empty := head, true
	for word := range strings.FieldsSeq(text) {
		if !empty && utf8.RuneCountInString(line+" "+word+more) > width {
			out.WriteString(line + more + "\n")
			line, empty = strings.Repeat(" ", hang), true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return out.String() + line
}
