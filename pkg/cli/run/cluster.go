package run

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/safefile"
)

const (
	// operatorVariable names the file of operator values.
	operatorVariable = "CX_OPERATOR_CONFIG"
	// operatorBytes is the maximum size of that file, far more than a fleet needs.
	operatorBytes = 1 << 20
)

// cluster is the cluster that this host belongs to. The zero value means that it belongs to none.
type cluster struct {
	operator operator.Values
	// slurmJob and slurmStep are the job and its step that this program runs in.
	slurmJob, slurmStep string
	tell                func(format string, args ...any)
}

// newCluster reads the operator values, if the environment names a file.
func newCluster(s cli.Streams) (cluster, error) {
	here := cluster{slurmJob: s.Getenv("SLURM_JOB_ID"), slurmStep: s.Getenv("SLURM_STEP_ID"), tell: func(format string, args ...any) { s.Tell("cxrun: "+format, args...) }}
	path := s.Getenv(operatorVariable)
	if path == "" {
		return here, nil
	}
	data, err := safefile.Read(path, operatorBytes)
	if err == nil {
		here.operator, err = catalog.ParseOperator(operatorVariable, data)
	}
	if err != nil {
		return cluster{}, cli.UsageError("%s: %w", operatorVariable, err)
	}
	return here, nil
}

// stages lists the directories that platforms share with their nodes, each once.
func (h cluster) stages() []string {
	var dirs []string
	for _, p := range h.operator.Platforms {
		if p.Storage.Stage != "" {
			dirs = append(dirs, p.Storage.Stage)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func (h cluster) request(cell plan.Cell) launch.Request {
	return launch.Request{Cell: cell, Operator: h.operator.Platform(cell.SKU), SlurmJob: h.slurmJob, SlurmStep: h.slurmStep, Tell: h.tell}
}

// maxRanksPerNode returns the maximum number of ranks of a case on a node.
func maxRanksPerNode(cases []plan.Requested) (n int) {
	for _, q := range cases {
		n = max(n, q.Case.RanksPerNode)
	}
	return n
}

// memberOf returns the place of this process among the ranks of a cell that an external launcher started.
func memberOf(s cli.Streams, m *plan.Matrix, cell plan.Cell, around cluster) (member launch.Member, err error) {
	if cell.Container != "none" {
		return member, cli.UsageError("cell %s runs in containers (%s), and --join runs where it was started: use a platform with container: none", cell.ID, cell.Container)
	}
	if families()[cell.Family].Computes != nil {
		return member, cli.UsageError("cell %s has no ranks, so no process can join as one: leave out --join", cell.ID)
	}
	cases, err := m.Cases(cell)
	if err != nil {
		return member, cli.UsageError("%w", err)
	}
	started, err := launch.StartedPlace(s.Getenv)
	if err != nil {
		return member, cli.EnvironmentError("--join: %w", err)
	}
	member = launch.Member{
		Token: s.Getenv(rendezvous.TokenVariable), Task: cli.Build() + " " + m.SHA256 + " " + cell.ID, Network: around.request(cell).Network(),
	}
	if member.Place, err = started.Place(cell.Nodes, max(1, maxRanksPerNode(cases))); err != nil {
		return member, cli.EnvironmentError("--join: %w", err)
	}
	if member.Store, err = launch.StartedStore(s.Getenv); err != nil {
		return member, cli.EnvironmentError("--join: %w", err)
	}
	if err := os.Unsetenv(rendezvous.TokenVariable); err != nil { // the ranks have a token of their own
		return member, cli.EnvironmentError("%w", err)
	}
	return member, nil
}

func newCleanup(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "cleanup",
		Short: "Cancel and remove what killed shards left on this machine",
		Long: `Cancel the Slurm jobs, and remove the scratch directories, of shards, sweeps and benches on
this machine that were killed before they could do so themselves. Running ones are not
affected. cxrun searches /dev/shm, the directory for temporary files, and storage.stage of
the platforms in the file that CX_OPERATOR_CONFIG names.

The exit code is 3 if a job could not be cancelled or a directory not removed. The
next cleanup, or the next shard on this machine, tries again.`,
		Example: `  cxrun cleanup`,
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			around, err := newCluster(s)
			if err != nil {
				return err
			}
			removed, err := launch.Cleanup(c.Context(), command.Host{}, around.stages())
			fmt.Fprintf(s.Out, "removed what %d killed shards left\n", removed)
			if err != nil {
				return cli.EnvironmentError("%w", err)
			}
			return nil
		},
	}
}
