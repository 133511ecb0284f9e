package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A paragraph is filled again, a description goes on below its beginning, and a shell reads an example as before.
func TestHelpFitsATerminal(t *testing.T) {
	text := `Words of a paragraph that was filled for a terminal of eighty columns
go on here.

  csv      a table with one figure per row for many other programs
  short    fine

Flags:
  -b, --begin SIZE   the first of the sizes that are measured (default 8)

  cxrun report --in before=monday.ndjson --in after=tuesday.ndjson -o week.html
`
	require.Equal(t, text, fit(text, 81))
	require.Equal(t, `Words of a paragraph that was filled for
a terminal of eighty columns go on here.

  csv      a table with one figure per
           row for many other programs
  short    fine

Flags:
  -b, --begin SIZE   the first of the
                     sizes that are
                     measured (default
                     8)

  cxrun report --in \
      before=monday.ndjson --in \
      after=tuesday.ndjson -o \
      week.html
`, fit(text, 40))
}
