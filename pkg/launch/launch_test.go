package launch

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

func TestPlacesArePacked(t *testing.T) {
	p := Places(6, 4)
	require.Len(t, p, 6)
	require.Equal(t, "{3 6 3 0} {4 6 0 1} {5 6 1 1}", fmt.Sprint(p[3], " ", p[4], " ", p[5]))
}

func TestRanksOfThisHostShareItsMemory(t *testing.T) {
	l, ok := For(Request{Cell: plan.Cell{Launcher: "bare", Container: "none", Nodes: 1}}).(Local)
	require.True(t, ok)
	require.Equal(t, rendezvous.Memory(), l.Scratch)
}

// withoutStage is what is said of a cell of Slurm without a directory that its ranks share.
func withoutStage(t *testing.T) string {
	r := Request{Cell: plan.Cell{SKU: "gb200", Launcher: "slurm", Container: "pyxis", Nodes: 2}}
	_, err := r.scratchBase()
	require.Error(t, err)
	return err.Error()
}

// Even on one node: this program runs elsewhere.
func TestRanksOfOtherHostsNeedASharedDirectory(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		r := Request{Cell: plan.Cell{SKU: "gb200", Launcher: "slurm", Container: "pyxis", Nodes: nodes}}
		_, err := r.scratchBase()
		require.EqualError(t, err, "ranks started by slurm need a directory that they share with this host: name one among the operator values of platform gb200, as storage.stage")
		r.Operator.Storage.Stage = "/shared/stage"
		base, err := r.scratchBase()
		require.NoError(t, err)
		host, err := os.Hostname()
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("/shared/stage/collectivex-%s-%d", host, os.Geteuid()), base)
	}
}

// All that a cell lacks is said at once.
func TestForRefusesWhatItDoesNotHave(t *testing.T) {
	r := Request{Cell: plan.Cell{SKU: "gb200", Launcher: "slurm", Container: "pyxis", Nodes: 2}}
	r.Cell.Launch.Requires = []string{"slurm.partition", "slurm.account"}
	_, err := For(r).Allocate(t.Context())
	require.EqualError(t, err, "operator values of platform gb200 are missing: slurm.partition, slurm.account; "+
		"write them into the file that CX_OPERATOR_CONFIG names; "+
		"no directory for container images: name one among the operator values of platform gb200, as storage.images; "+withoutStage(t))
	_, err = For(Request{Cell: plan.Cell{Launcher: "bare", Container: "pyxis", Nodes: 1}}).Allocate(t.Context())
	require.ErrorContains(t, err, `this program has no launcher "bare" with container "pyxis"; `)
}
