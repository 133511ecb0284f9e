package launch

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/rank"
)

// taskOutput passes on what a task writes as srun --label does.
type taskOutput struct {
	label string
	to    io.Writer
}

// Write implements io.Writer for whole lines.
func (o taskOutput) Write(line []byte) (int, error) {
	_, err := o.to.Write(append([]byte(o.label), line...))
	return len(line), err
}

// The ranks of a Node have their logs and exits, although srun knows only the node.
func TestRanksOfANode(t *testing.T) {
	l, exits := logsOf(t, 5, 3, true)
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte(`#!/bin/sh
echo "0: not a label, $*"
[ "$4" = 4 ] && kill -SEGV $$
printf 'no end of line' >&2
exit 7
`), 0o700))
	stream := l.stream()
	n := Node{Starter: command.Host{}, Program: []string{program}, Store: "/store", Places: PlacesOn(5, 3, 1)}
	require.Equal(t, []rank.Place{{Rank: 3, World: 5, Node: 1}, {Rank: 4, World: 5, LocalRank: 1, Node: 1}}, n.Places)
	require.NoError(t, n.Run(t.Context(), taskOutput{"1: ", stream}))
	require.Len(t, exits, 2, "before srun ends")
	_, err := stream.Write([]byte("srun: error: node1: task 0: Killed\n"))
	require.NoError(t, err)
	require.NoError(t, l.close(command.Status{Code: 137}, false))
	close(exits)
	ended := map[int]Exit{}
	for e := range exits {
		ended[e.Rank] = e
	}
	require.Equal(t, map[int]Exit{
		0: {Rank: 0, Signal: 9}, 1: {Rank: 1, Signal: 9}, 2: {Rank: 2, Signal: 9}, 3: {Rank: 3, Code: 7}, 4: {Rank: 4, Signal: 11},
	}, ended)
	for r, want := range map[int]string{
		3: "0: not a label, --store /store --rank 3 --world 5 --local-rank 0 --node 1\nno end of line\n",
		4: "0: not a label, --store /store --rank 4 --world 5 --local-rank 1 --node 1\n",
	} {
		log, err := os.ReadFile(LogFile(l.dir, r))
		require.NoError(t, err)
		require.Equal(t, want, string(log))
	}
}

// A Node that cannot start all of its ranks starts none.
func TestANodeWithoutItsProgram(t *testing.T) {
	n := Node{Starter: command.Host{}, Program: []string{filepath.Join(t.TempDir(), "missing")}, Store: "/store", Places: PlacesOn(2, 2, 0)}
	require.ErrorIs(t, n.Run(t.Context(), io.Discard), os.ErrNotExist)
}
