package shard

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// A case fails if a rank found other settings than rank 0.
func TestRanksWithOtherSettings(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1))
	l := s.Launcher.(launch.Local)
	l.Program = []string{"sh", "-c", `case "$*" in *"--rank 1"*) export GLIBC_TUNABLES=glibc.malloc.arena_max=1;; esac; exec "$0" "$@"`, os.Args[0], "rank"}
	s.Launcher = l
	_, err := s.Do(t.Context())
	require.ErrorIs(t, err, ErrEnvironment)
	end := s.Observer.(*recorder).ends[0]
	require.Equal(t, result.Reasons{result.ReasonEnvironment.With("settings of ranks 0 and 1 differ")}, end.Document.Head().Outcome.Reasons)
	require.Equal(t, `GLIBC_TUNABLES is "" for rank 0 and "glibc.malloc.arena_max=1" for rank 1: give both ranks the same settings; their logs name the settings files`, end.Failure)
}

// A case fails if a rank was started without a variable of the plan, with another value, or with one that the plan
// unsets. The reason does not have the value.
func TestRanksWithoutTheVariablesOfThePlan(t *testing.T) {
	for script, want := range map[string]struct{ reason, failure string }{
		"unset NCCL_ALGO": {
			"rank 0 did not get the NCCL_ALGO of the plan",
			`NCCL_ALGO is "" for rank 0 and "Ring" in the plan: look for what changes it between this program and the rank`,
		},
		`case "$*" in *"--rank 1"*) export NCCL_ALGO=Tree;; esac`: {
			"rank 1 did not get the NCCL_ALGO of the plan",
			`NCCL_ALGO is "Tree" for rank 1 and "Ring" in the plan: look for what changes it between this program and the rank`,
		},
		"export NCCL_IB_HCA=mlx5_7": {
			"rank 0 got a NCCL_IB_HCA, which the plan unsets", `NCCL_IB_HCA is "mlx5_7" for rank 0, and the plan unsets it: look for what sets it there`,
		},
	} {
		q := fakeCase(0, 2, 1)
		q.Case.Env = map[string]string{"NCCL_ALGO": "Ring"}
		s := fakeShard(t.TempDir(), t.TempDir(), q)
		s.Network = launch.Request{}.NetworkEnv
		l := s.Launcher.(launch.Local)
		l.Program = []string{"sh", "-c", script + `; exec "$0" "$@"`, os.Args[0], "rank"}
		s.Launcher = l
		_, err := s.Do(t.Context())
		require.ErrorIs(t, err, ErrEnvironment)
		end := s.Observer.(*recorder).ends[0]
		require.Equal(t, result.Reasons{result.ReasonEnvironment.With("%s", want.reason)}, end.Document.Head().Outcome.Reasons)
		require.Equal(t, want.failure, end.Failure)
	}
}

// A document has the environment that the ranks saw, not the one that the shard meant to give them, and describes
// their machine, which is not that of the shard in a job of Slurm.
func TestDocumentsHaveWhatRanksSaw(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1))
	s.Run.Environment = func(_, seen, _ map[string]string) map[string]string { return seen }
	s = withVariable(s, "NCCL_PROTO", "LL")
	_, err := s.Do(t.Context())
	require.NoError(t, err)
	p := s.Observer.(*recorder).ends[0].Document.Head().Provenance
	require.Equal(t, "LL", p.Environment["NCCL_PROTO"])
	require.Equal(t, provenance.Host(sysfs.Here(), provenance.NewScreen())["kernel"], p.Host["kernel"])
	require.Contains(t, p.Host, "memory_bytes")
}

// Variants of one model have the platform's product, but a comparison key of their own.
func TestVariantsOfDevices(t *testing.T) {
	of := func(facts ...*rank.Facts) map[string]string {
		var streams []rank.Stream
		for r, f := range facts {
			streams = append(streams, rank.Stream{Rank: r, Facts: f})
		}
		return provenance.NewScreen().Environment(nil, settings(plan.Case{World: 2, Nodes: 1, RanksPerNode: 2}, streams))
	}
	require.Empty(t, of(&rank.Facts{}, &rank.Facts{}, nil))
	require.Equal(t, map[string]string{"CX_DEVICE": "mig cpx/nps4"}, of(&rank.Facts{}, &rank.Facts{DeviceVariant: "mig cpx/nps4"}))
}

func TestProcessors(t *testing.T) {
	c := plan.Case{World: 4, Nodes: 2, RanksPerNode: 2}
	of := func(each ...[]int) string {
		var streams []rank.Stream
		for r, cpus := range each {
			streams = append(streams, rank.Stream{Rank: r, Settings: rank.Settings{Processors: cpus}})
		}
		return settings(c, streams)[provenance.ProcessorsVariable]
	}
	require.Empty(t, of(nil, nil, nil, nil), "no rank is restricted")
	require.Equal(t, "1", of([]int{0}, []int{0}, nil, nil), "by taskset")
	require.Equal(t, "2", of([]int{0}, []int{1}, []int{4, 5, 6}, []int{4, 5, 6}), "by the launcher, to one each")
	require.Empty(t, of([]int{0, 1}, []int{2, 3}, nil, nil), "to enough")
	require.Empty(t, of([]int{0}, nil, nil, nil), "the other may use all")
}
