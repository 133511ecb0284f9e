package launch

import (
	"context"
	"encoding/json"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// A process belongs to others only if a launcher started them together.
func TestTogether(t *testing.T) {
	step := map[string]string{"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "1", "SLURM_STEP_ID": "0"}
	torchrun := map[string]string{"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
	without := func(env map[string]string, name string) map[string]string {
		out := map[string]string{}
		for k, v := range env {
			if k != name {
				out[k] = v
			}
		}
		return out
	}
	for name, of := range map[string]struct {
		env  map[string]string
		want *Started
	}{
		"srun":                 {step, &Started{1, 2, 1, "SLURM_PROCID"}},
		"sbatch":               {without(step, "SLURM_STEP_ID"), nil},
		"a step of one task":   {map[string]string{"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_ID": "0"}, nil},
		"torchrun":             {torchrun, &Started{1, 2, 1, "RANK"}},
		"a pod of an operator": {without(torchrun, "LOCAL_RANK"), nil},
		"mpirun":               {map[string]string{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "1"}, &Started{1, 2, -1, "OMPI_COMM_WORLD_RANK"}},
		"mpirun -np 1":         {map[string]string{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}, nil},
		"MPICH":                {map[string]string{"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0"}, &Started{0, 2, 0, "PMI_RANK"}},
		"srun --mpi=pmi2": {
			map[string]string{"PMI_RANK": "1", "PMI_SIZE": "2", "SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "1", "SLURM_STEP_ID": "0"},
			&Started{1, 2, 1, "SLURM_PROCID"},
		},
		"nothing":               {nil, nil},
		"PMIx of a daemon only": {map[string]string{"PMIX_RANK": "0"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Together(environment(of.env))
			require.NoError(t, err)
			require.Equal(t, of.want, got)
		})
	}
}

// On one host, processes meet in its memory, and on several in the home directory. What does not say which processes
// belong together needs an address.
func TestMeeting(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	of := func(p Started, env map[string]string) meeting {
		m, err := p.meeting(environment(env))
		require.NoError(t, err)
		return m
	}
	mpirun, srun := Started{1, 4, 1, "OMPI_COMM_WORLD_RANK"}, Started{1, 4, 1, "SLURM_PROCID"}
	one := of(mpirun, map[string]string{"OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "1"})
	require.Equal(t, "127.0.0.1", one.host)
	require.NotEqual(t, one, of(mpirun, map[string]string{"OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "2"}))
	several := of(srun, map[string]string{"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "MASTER_ADDR": "[fd00::1]"})
	require.Equal(t, "fd00::1", several.host)
	require.NotEqual(t, several.file, of(srun, map[string]string{"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "1", "SLURM_STEP_NUM_NODES": "2"}).file)
	_, err := Started{1, 4, 1, "PMI_RANK"}.meeting(environment(map[string]string{"MPI_LOCALNRANKS": "2"}))
	require.EqualError(t, err, "mpirun does not say which processes belong together: set MASTER_ADDR and MASTER_PORT to where rank 0 listens, and CX_STORE_TOKEN to a random text of at least 16 characters, for all")
}

// Ranks are numbered host after host, whatever the launcher did.
func TestPlacesOnHosts(t *testing.T) {
	places, err := placesOn([]string{"b", "a", "b", "a"})
	require.NoError(t, err)
	require.Equal(t, []rank.Place{
		{Rank: 0, World: 4}, {Rank: 2, World: 4, Node: 1}, {Rank: 1, World: 4, LocalRank: 1}, {Rank: 3, World: 4, LocalRank: 1, Node: 1},
	}, places)
	_, err = placesOn([]string{"a", "a", "b"})
	require.EqualError(t, err, "2 processes were started on the host of rank 0 and 1 on another: start equally many on each")
}

// A process that leaves before it serves, as where its device is in use, ends the start of the ranks.
func TestAProcessThatLeaves(t *testing.T) {
	t.Setenv("CX_RANK", "hang")
	dir := t.TempDir()
	var teams [2]*Team
	var errs [2]error
	var group sync.WaitGroup
	for r := range teams {
		group.Go(func() {
			teams[r], errs[r] = Join(t.Context(), Member{Place: rank.Place{Rank: r, World: 2, LocalRank: r}, Store: dir}, command.Host{})
		})
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.NoError(t, teams[1].Close(t.Context(), 0))
	a, err := teams[0].Allocate(t.Context())
	require.NoError(t, err)
	for range 2 {
		_, err = a.Start(t.Context(), Spec{Places: Places(2, 2), LogDir: t.TempDir()})
		require.EqualError(t, err, "start ranks: the process of rank 1 has ended")
	}
	require.NoError(t, a.Release())
	require.NoError(t, teams[0].Close(t.Context(), 0))
}

// A rank that no signal ends fails its group, and holds up neither the other processes nor the end of its own.
func TestARankOfATeamThatDoesNotDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuck{make(chan struct{})}
		defer close(s.letGo)
		team, err := Join(t.Context(), Member{Place: rank.Place{World: 1}, Store: t.TempDir()}, s)
		require.NoError(t, err)
		a, err := team.Allocate(t.Context())
		require.NoError(t, err)
		g, err := a.Start(t.Context(), Spec{Places: Places(1, 1), LogDir: t.TempDir()})
		require.NoError(t, err)
		require.ErrorContains(t, g.Kill(), killGrace.String())
		require.Empty(t, exits(g))
		require.NoError(t, a.Release())
		require.NoError(t, team.Close(t.Context(), 0))
	})
}

// fullStore has no space for values.
type fullStore struct{ rendezvous.Store }

func (fullStore) Put(context.Context, string, []byte) error { return syscall.ENOSPC }

// Nothing tells an agent to stop where the store is full.
func TestTheEndOfATeamWhoseStoreIsFull(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	team, err := Join(ctx, Member{Place: rank.Place{World: 1}, Store: t.TempDir()}, command.Host{})
	require.NoError(t, err)
	team.store = fullStore{team.store}
	require.ErrorIs(t, team.Close(ctx, 0), syscall.ENOSPC)
	cancel()
	require.ErrorIs(t, <-team.served, context.Canceled)
}

// A process that ends while the others join ends them too, long before the limit.
func TestAProcessThatEndsWhileJoining(t *testing.T) {
	at := meeting{filepath.Join(t.TempDir(), "card"), "127.0.0.1"}
	const world = 3
	var errs [world - 1]error
	var group sync.WaitGroup
	for r := range errs {
		group.Go(func() {
			_, errs[r] = Join(t.Context(), Member{Place: rank.Place{Rank: r, World: world, LocalRank: r}, meeting: at}, command.Host{})
		})
	}
	joined := make(chan struct{})
	go func() { group.Wait(); close(joined) }()
	c, _, err := at.find(t.Context(), world-1)
	require.NoError(t, err)
	_, err = c.Get(t.Context(), "join/rank-1") // rank 1 waits, too
	require.NoError(t, err)
	for over := false; !over; { // until the end of a connection of rank 2 is one that rank 0 had seen
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, _ = c.Get(ctx, joinKey(world-1))
		stop()
		select {
		case <-joined:
			over = true
		default:
		}
	}
	require.EqualError(t, errs[0], "join: the process of rank 2 has ended")
	require.ErrorContains(t, errs[1], "join: rank 0 has ended: ")
}

// All processes report why they disagree, also the one that leaves long after the others.
func TestThreeProcessesDisagree(t *testing.T) {
	at := meeting{filepath.Join(t.TempDir(), "card"), "127.0.0.1"}
	const world = 3
	member := func(r int) Member {
		return Member{Place: rank.Place{Rank: r, World: world, LocalRank: r}, Task: []string{"one", "other", "one"}[r], meeting: at}
	}
	var errs [world - 1]chan error
	for r := range errs {
		errs[r] = make(chan error, 1)
		go func() {
			_, err := Join(t.Context(), member(r), command.Host{})
			errs[r] <- err
		}()
	}
	last, _, err := at.find(t.Context(), world-1)
	require.NoError(t, err)
	me, err := (&Team{member: member(world - 1)}).describe()
	require.NoError(t, err)
	raw, err := json.Marshal(me)
	require.NoError(t, err)
	all, err := last.Gather(t.Context(), "join", me.Rank, world, raw)
	require.NoError(t, err)
	var leader description
	require.NoError(t, json.Unmarshal(all[0], &leader))
	require.NoError(t, last.Barrier(t.Context(), "joined-"+leader.Nonce, me.Rank, world))
	const want = "join: rank 1 was started with another command, matrix, backend or version of this program than rank 0: start all with the same command"
	require.EqualError(t, <-errs[1], want)
	select {
	case err := <-errs[0]:
		t.Fatalf("rank 0 has left before rank 2: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(t, last.Put(t.Context(), "leave/rank-2", nil))
	require.EqualError(t, <-errs[0], want)
}

// What the store of rank 0 replies does not mean that rank 0 has ended.
func TestJoinIsRefused(t *testing.T) {
	l, err := rendezvous.Lead("127.0.0.1", 2)
	require.NoError(t, err)
	defer l.Close()
	_, err = Join(t.Context(), Member{Place: rank.Place{Rank: 1, World: 2, LocalRank: 1}, Store: l.Address(), Token: "another"}, command.Host{})
	require.ErrorIs(t, err, fs.ErrPermission)
	require.NotContains(t, err.Error(), "has ended")
}
