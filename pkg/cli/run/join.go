package run

import (
	"context"
	"os"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// joinTeam makes this process one of the ranks of a cell that an external launcher started.
func joinTeam(ctx context.Context, s cli.Streams, m *plan.Matrix, cell plan.Cell, around cluster) (*launch.Team, error) {
	if cell.Container != "none" {
		return nil, cli.UsageError("cell %s runs in containers (%s), and --join runs where it was started: use a platform with container: none", cell.ID, cell.Container)
	}
	if families()[cell.Family].Computes != nil {
		return nil, cli.UsageError("cell %s has no ranks, so no process can join as one: leave out --join", cell.ID)
	}
	cases, err := m.Cases(cell)
	if err != nil {
		return nil, cli.UsageError("%w", err)
	}
	ranksPerNode := 1
	for _, q := range cases {
		ranksPerNode = max(ranksPerNode, q.Case.RanksPerNode)
	}
	started, err := launch.StartedPlace(s.Getenv)
	if err != nil {
		return nil, cli.EnvironmentError("--join: %w", err)
	}
	member := launch.Member{
		Token: s.Getenv(rendezvous.TokenVariable), Task: cli.Build() + " " + m.SHA256 + " " + cell.ID, Network: around.request(cell).Network(),
	}
	if member.Place, err = started.Place(cell.Nodes, ranksPerNode); err != nil {
		return nil, cli.EnvironmentError("--join: %w", err)
	}
	if member.Store, err = launch.StartedStore(s.Getenv); err != nil {
		return nil, cli.EnvironmentError("--join: %w", err)
	}
	if err := os.Unsetenv(rendezvous.TokenVariable); err != nil { // the ranks have another one
		return nil, cli.EnvironmentError("%w", err)
	}
	team, err := launch.Join(ctx, member, command.Host{})
	if err != nil {
		return nil, cli.EnvironmentError("--join: %w", err)
	}
	return team, nil
}
