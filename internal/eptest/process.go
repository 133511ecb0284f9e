package eptest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/copies/runner"
	eprunner "github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
	transferrunner "github.com/collectivex/collectivex/pkg/transfer/runner"
)

// rankVariable makes a test binary one rank: "rank/world/ranks per node/faults/store".
const rankVariable = "CX_TEST_EP_RANK"

// Main is called by TestMain. In a process that Processes started, it runs the rank and exits.
// In any other process it returns.
func Main(find func(plan.Case) (rank.Opener, error)) {
	text, ok := os.LookupEnv(rankVariable)
	if !ok {
		return
	}
	if err := runRank(text, find); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runRank(text string, find func(plan.Case) (rank.Opener, error)) error {
	fields := strings.SplitN(text, "/", 5)
	var place rank.Place
	if _, err := fmt.Sscan(fields[0], &place.Rank); err != nil {
		return err
	}
	if _, err := fmt.Sscan(fields[1], &place.World); err != nil {
		return err
	}
	var perNode int
	if _, err := fmt.Sscan(fields[2], &perNode); err != nil {
		return err
	}
	place.Node, place.LocalRank = place.Rank/perNode, place.Rank%perNode
	faults, err := rank.ParseFaults(fields[3], slices.Concat(eprunner.FaultKinds(), stepsrunner.FaultKinds(), transferrunner.FaultKinds(), runner.FaultKinds())...)
	if err != nil {
		return err
	}
	store, err := rendezvous.OpenFile(fields[4])
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	return rank.Loop(ctx, place, store, find, faults, os.Stderr)
}

// Ended holds the results of the processes of a group.
type Ended struct {
	Streams [][]rank.Stream // by case and rank
	Logs    []string        // output of each rank
	Errs    []error         // error of each process, or nil
}

// Processes runs the cases in one group, with a process of this test binary for each rank. The
// binary's TestMain must call Main. If together is set, the failure of one rank ends the others, as
// in a shard.
func Processes(t *testing.T, together bool, faults string, cases ...plan.Case) (e Ended) {
	t.Helper()
	root := fakes.MemoryDir(t)
	store, err := rendezvous.OpenFile(root)
	require.NoError(t, err)
	defer store.Close()
	Order(t, store, cases...)
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	defer cancel()
	world := cases[0].World
	outputs := make([]strings.Builder, world)
	e.Errs = make([]error, world)
	ends := make(chan struct{})
	cmds := make([]*exec.Cmd, world)
	for r := range cmds {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d/%d/%d/%s/%s", rankVariable, r, world, max(1, cases[0].RanksPerNode), faults, root))
		cmd.Stdout, cmd.Stderr = &outputs[r], &outputs[r]
		require.NoError(t, cmd.Start())
		cmds[r] = cmd
	}
	for r, cmd := range cmds { // all have been started when the first ends the others
		go func() {
			if e.Errs[r] = cmd.Wait(); e.Errs[r] != nil && together {
				cancel()
			}
			ends <- struct{}{}
		}()
	}
	for range world {
		<-ends
	}
	for i := range outputs {
		e.Logs = append(e.Logs, outputs[i].String())
	}
	e.Streams = Streams(t, store, cases...)
	return e
}
