package gen

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/githubtest"
	"github.com/collectivex/collectivex/pkg/fleet"
)

// On a terminal the display is drawn over itself: counts by platform, what runs, and what
// failed, in lines that fit; text of GitHub cannot move the cursor.
func TestDisplayOnATerminal(t *testing.T) {
	at := githubtest.Epoch
	sweep := &fleet.Sweep{Run: fleet.Run{ID: 7, Attempt: 1, Status: "in_progress", Started: at}, At: at.Add(90 * time.Second), Left: time.Minute}
	sweep.Cells = []fleet.Job{
		{Name: "x", SKU: "mi355x", State: fleet.Failure, Reason: "evil\x1b[2Jtext " + strings.Repeat("long ", 50)},
		{Name: "y", SKU: "mi355x", State: fleet.Queued},
	}
	for i := range shown + 3 {
		sweep.Cells = append(sweep.Cells, fleet.Job{Name: fmt.Sprintf("cell-%d", i), SKU: "b300", State: fleet.Running, Runner: "r", Step: "Run the cell"})
	}
	var out bytes.Buffer
	d := &display{w: &out, width: 60, said: map[string]string{}}
	d.draw(sweep)
	first := out.String()
	require.Contains(t, first, "run 7, attempt 1: in_progress, 0:01:30, about 0:01:00 left\n")
	require.Contains(t, first, "b300           15 running\n")
	require.Contains(t, first, "mi355x         1 queued, 1 failure\n")
	require.Contains(t, first, "cell-0: running on r, Run the cell\n")
	require.Contains(t, first, "… and 3 more: running\n")
	require.NotContains(t, first, "\x1b[2J")
	lines := strings.Count(first, "\n")
	for line := range strings.Lines(first) {
		require.Less(t, len([]rune(strings.TrimPrefix(line, "\r\x1b[K"))), 62, line)
	}

	out.Reset()
	sweep.Status, sweep.Conclusion, sweep.Left = "completed", "failure", 0
	d.draw(sweep)
	require.True(t, strings.HasPrefix(out.String(), fmt.Sprintf("\x1b[%dA", lines)))
	require.True(t, strings.HasSuffix(out.String(), "\x1b[J"))
	require.Contains(t, out.String(), "attempt 1: failure, 0:01:30\n")
}
