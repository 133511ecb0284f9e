package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// newMan returns the hidden command that prints the manual page of the program, for packages.
func newMan(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:    "man",
		Short:  "Print the manual page of this program",
		Hidden: true,
		Args:   NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return printMan(s.Out, c.Root())
		},
	}
}

// exitStatus is the section of manual pages on exit codes.
var exitStatus = fmt.Sprintf(`%d  success
%d  a case failed, or a check found a difference
%d  usage error, or error in the definitions
%d  this machine, or a library on it, cannot do what was asked, or a file cannot be written
`, ExitOK, ExitFailed, ExitUsage, ExitEnvironment)

// printMan prints the manual page of a program as roff: what it is, and the help of each of its
// commands.
func printMan(out io.Writer, root *cobra.Command) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, ".TH %s 1 \"\" \"%s\" CollectiveX\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\nCOMMAND [flags]\n.SH COMMANDS\n",
		strings.ToUpper(root.Name()), roff(root.Version), root.Name(), roff(root.Short), root.Name())
	printCommands(w, root)
	fmt.Fprint(w, ".SH EXIT STATUS\n")
	printLines(w, exitStatus)
	return w.Flush()
}

// printCommands prints the help of the commands below c.
func printCommands(w io.Writer, c *cobra.Command) {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.Name() == "help" {
			continue
		}
		fmt.Fprintf(w, ".SS %s\n", roff(sub.UseLine()))
		printLines(w, cmp.Or(sub.Long, sub.Short))
		printLines(w, sub.LocalFlags().FlagUsages())
		printLines(w, sub.Example)
		if sub.Name() != "completion" { // cobra's own, which need no more than its help
			printCommands(w, sub)
		}
	}
}

// printLines prints a paragraph whose lines stay as they are.
func printLines(w io.Writer, text string) {
	text = strings.Trim(text, "\n")
	if text == "" {
		return
	}
	fmt.Fprint(w, ".PP\n.nf\n")
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(w, roff(line))
	}
	fmt.Fprint(w, ".fi\n")
}

// roff returns a line of text as roff prints it.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
