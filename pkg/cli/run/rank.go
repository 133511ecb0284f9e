package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// rankThreads is how many OS threads of a rank may run Go code at once: the
// one that measures and one for everything else.
const rankThreads = 2

// expendable makes the kernel kill this rank and its children before the shard when
// memory runs out. A dead rank fails its case; a dead shard fails the cell.
func expendable(log io.Writer) {
	const highest = "1000"
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(highest), 0); err != nil {
		fmt.Fprintf(log, "cannot make this rank the first process that the kernel kills when memory runs out: %v\n", err)
	}
}

// newRank returns the command that runs one rank of a group. Launchers start it; people do not.
func newRank(s cli.Streams) *cobra.Command {
	var (
		store  string
		place  rank.Place
		slurm  bool
		shared bool
	)
	cmd := &cobra.Command{
		Use:    "rank",
		Short:  "Run one rank of a group (started by shard)",
		Hidden: true,
		Args:   cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			// Libraries print to standard output. It is moved away, so that nothing
			// depends on what a launcher does with it.
			if err := unix.Dup3(2, 1, 0); err != nil {
				return cli.EnvironmentError("move standard output: %w", err)
			}
			if err := launch.Unset(); err != nil {
				return cli.EnvironmentError("%w", err)
			}
			faults, err := rank.ParseFaults(s.Getenv(rank.FaultVariable), faultKinds()...)
			if err != nil {
				return cli.UsageError("%w", err)
			}
			if slurm {
				if place, err = launch.SlurmPlace(s.Getenv); err != nil {
					return cli.EnvironmentError("%w", err)
				}
			}
			if err := place.Check(); err != nil {
				return cli.UsageError("%w", err)
			}
			if shared {
				unix.Umask(0)
			}
			expendable(s.Err)
			joined, err := rendezvous.Join(store, s.Getenv)
			if err != nil {
				return cli.EnvironmentError("%w", err)
			}
			defer func() { err = errors.Join(err, joined.Close()) }()
			if err := os.Unsetenv(rendezvous.TokenVariable); err != nil { // libraries need not know it
				return cli.EnvironmentError("%w", err)
			}
			runtime.GOMAXPROCS(min(rankThreads, runtime.NumCPU()))
			err = rank.Loop(c.Context(), place, joined, find(families()), faults, s.Err)
			if errors.Is(err, rank.ErrStore) {
				return &cli.ExitError{Code: rank.ExitStore, Err: err}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&store, "store", "", "`ADDRESS` of the group's store: a directory, or tcp://HOST:PORT")
	f.IntVar(&place.Rank, "rank", 0, "this rank")
	f.IntVar(&place.World, "world", 1, "ranks of the group")
	f.IntVar(&place.LocalRank, "local-rank", 0, "rank within its node, and its device")
	f.IntVar(&place.Node, "node", 0, "node of the rank")
	f.BoolVar(&slurm, "slurm", false, "take this rank's place from Slurm's variables")
	f.BoolVar(&shared, "shared", false, "let other accounts read and remove what this rank writes; the directory above is private")
	_ = cmd.MarkFlagRequired("store") // fails only for unknown flags
	return cmd
}
