package launch

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/rank"
)

func environment(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

// The place of a rank that somebody else started, with the variables of everybody who starts
// ranks; contradictions are refused.
func TestStartedPlace(t *testing.T) {
	ompi := map[string]string{"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "PMIX_RANK": "3"}
	slurm := map[string]string{"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1"}
	with := func(env map[string]string, pairs ...string) map[string]string {
		all := map[string]string{}
		maps.Copy(all, env)
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = pairs[i+1]
		}
		return all
	}
	for name, of := range map[string]struct {
		env  map[string]string
		want Started
		err  string
	}{
		"mpirun":                     {env: ompi, want: Started{3, 4, 1, "OMPI_COMM_WORLD_RANK"}},
		"srun":                       {env: slurm, want: Started{3, 4, 1, "SLURM_PROCID"}},
		"srun --mpi=pmix":            {env: with(slurm, "PMIX_RANK", "3"), want: Started{3, 4, 1, "SLURM_PROCID"}},
		"MPICH":                      {env: with(nil, "PMI_RANK", "0", "PMI_SIZE", "2"), want: Started{0, 2, -1, "PMI_RANK"}},
		"torchrun":                   {env: with(nil, "RANK", "2", "WORLD_SIZE", "4", "LOCAL_RANK", "0"), want: Started{2, 4, 0, "RANK"}},
		"torchrun below srun":        {env: with(slurm, "RANK", "2", "WORLD_SIZE", "8", "LOCAL_RANK", "2", "PMIX_RANK", "3"), want: Started{2, 8, 2, "RANK"}},
		"mpirun below sbatch":        {env: with(ompi, "SLURM_PROCID", "0", "SLURM_NTASKS", "4", "SLURM_LOCALID", "0"), want: Started{3, 4, 1, "OMPI_COMM_WORLD_RANK"}},
		"both agree":                 {env: with(ompi, "RANK", "3", "WORLD_SIZE", "4"), want: Started{3, 4, -1, "RANK"}},
		"nothing":                    {err: "no variable has the rank of this process: start it with mpirun, torchrun or srun, or set RANK, WORLD_SIZE and LOCAL_RANK"},
		"PMIx alone":                 {env: with(nil, "PMIX_RANK", "3"), err: "PMIX_RANK is set, but no variable has the number of ranks: set RANK, WORLD_SIZE and LOCAL_RANK"},
		"PMIx differs":               {env: with(ompi, "PMIX_RANK", "0"), err: "OMPI_COMM_WORLD_RANK says rank 3, and PMIX_RANK says rank 0: unset the variable that is not for this process"},
		"ranks differ":               {env: with(ompi, "RANK", "0", "WORLD_SIZE", "4"), err: "RANK says rank 0 of 4, and OMPI_COMM_WORLD_RANK says rank 3 of 4: unset the variables that are not for this process"},
		"worlds differ":              {env: with(ompi, "RANK", "3", "WORLD_SIZE", "8"), err: "RANK says rank 3 of 8, and OMPI_COMM_WORLD_RANK says rank 3 of 4: unset the variables that are not for this process"},
		"a rank without a world":     {env: with(nil, "RANK", "3"), err: `WORLD_SIZE is "" beside RANK=3: want a number from 0`},
		"a world without a rank":     {env: with(ompi, "WORLD_SIZE", "4"), err: `RANK is "" beside RANK=: want a number from 0`},
		"no number":                  {env: with(slurm, "SLURM_LOCALID", "two"), err: `SLURM_LOCALID is "two" beside SLURM_PROCID=3: want a number from 0`},
		"a rank outside the world":   {env: with(slurm, "SLURM_NTASKS", "3"), err: "SLURM_PROCID=3 and SLURM_LOCALID=1 do not fit SLURM_NTASKS=3: ranks are numbered from 0"},
		"a local rank outside of it": {env: with(slurm, "SLURM_LOCALID", "4"), err: "SLURM_PROCID=3 and SLURM_LOCALID=4 do not fit SLURM_NTASKS=4: ranks are numbered from 0"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := StartedPlace(environment(of.env))
			if of.err != "" {
				require.EqualError(t, err, of.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, of.want, got)
		})
	}
}

func TestPlaceAmongNodes(t *testing.T) {
	p, err := Started{3, 4, 1, "RANK"}.Place(2, 2)
	require.NoError(t, err)
	require.Equal(t, rank.Place{Rank: 3, World: 4, LocalRank: 1, Node: 1}, p)
	p, err = Started{2, 4, -1, "RANK"}.Place(1, 4)
	require.NoError(t, err)
	require.Equal(t, rank.Place{Rank: 2, World: 4, LocalRank: 2}, p)
	_, err = Started{3, 8, 1, "RANK"}.Place(2, 2)
	require.EqualError(t, err, "8 ranks were started (RANK), and the cell needs 4: 2 on each of 2 nodes")
	_, err = Started{1, 4, 0, "SLURM_PROCID"}.Place(2, 2)
	require.EqualError(t, err, "rank 1 has local rank 0 (SLURM_PROCID), and the cell needs 1: number the ranks node after node, 2 on each, as mpirun --map-by ppr:2:node and srun --distribution=block do")
}

func TestStartedStore(t *testing.T) {
	const token = "0123456789abcdef"
	for name, of := range map[string]struct {
		env       map[string]string
		want, err string
	}{
		"a directory":      {env: map[string]string{"CX_STORE": "/shared/me", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, want: "/shared/me"},
		"a port":           {env: map[string]string{"CX_STORE": "tcp://host:7000", "CX_STORE_TOKEN": token}, want: "tcp://host:7000"},
		"Kubernetes":       {env: map[string]string{"MASTER_ADDR": "fd00::1", "MASTER_PORT": "7000", "CX_STORE_TOKEN": token}, want: "tcp://[fd00::1]:7000"},
		"brackets":         {env: map[string]string{"MASTER_ADDR": "[::1]", "MASTER_PORT": "7000", "CX_STORE_TOKEN": token}, want: "tcp://[::1]:7000"},
		"a service":        {env: map[string]string{"MASTER_ADDR": "a", "MASTER_PORT": "tcp://10.96.0.17:29500"}, err: `MASTER_PORT is "tcp://10.96.0.17:29500": want a port from 1 to 65535; Kubernetes sets it to a URL for a service called master, so set CX_STORE to tcp://HOST:PORT there`},
		"nothing":          {err: "CX_STORE is empty: set it to a directory that all ranks see, or to tcp://HOST:PORT of the host of rank 0"},
		"torchrun":         {env: map[string]string{"MASTER_ADDR": "a", "MASTER_PORT": "1", "TORCHELASTIC_USE_AGENT_STORE": "True"}, err: "torchrun itself listens at MASTER_PORT: set CX_STORE to a directory that all ranks see, or to tcp://HOST:PORT with another port"},
		"another scheme":   {env: map[string]string{"CX_STORE": "http://host:1"}, err: `CX_STORE is "http://host:1": want a directory or tcp://HOST:PORT`},
		"no port":          {env: map[string]string{"CX_STORE": "tcp://host", "CX_STORE_TOKEN": token}, err: `CX_STORE is "tcp://host": want a directory or tcp://HOST:PORT`},
		"no token":         {env: map[string]string{"CX_STORE": "tcp://host:1"}, err: "CX_STORE_TOKEN has 0 characters: a store over TCP needs one random text of at least 16 for all ranks"},
		"an empty address": {env: map[string]string{"MASTER_ADDR": "a"}, err: "CX_STORE is empty: set it to a directory that all ranks see, or to tcp://HOST:PORT of the host of rank 0"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := StartedStore(environment(of.env))
			if of.err != "" {
				require.EqualError(t, err, of.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, of.want, got)
		})
	}
}

// Processes that were asked for different things do not measure together.
func TestAgree(t *testing.T) {
	two := func(change func(*description)) []description {
		m := []description{{Place: rank.Place{World: 2}, Host: "a", Task: "task"}, {Place: rank.Place{Rank: 1, World: 2, LocalRank: 1}, Host: "a", Task: "task"}}
		change(&m[1])
		return m
	}
	require.NoError(t, agree(two(func(*description) {})))
	for want, change := range map[string]func(*description){
		"rank 1 was started with another command, matrix, backend or version of this program than rank 0: start all with the same command": func(m *description) { m.Task = "other" },
		"rank 1 has another NCCL_ALGO, NCCL_PROTO than rank 0: start all ranks in the same environment":                                    func(m *description) { m.Env = map[string]string{"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring"} },
		"as the member says": func(m *description) { m.Unusable = "as the member says" },
		"the operator values of rank 1 select another network than rank 0's: set CX_OPERATOR_CONFIG for all":        func(m *description) { m.Network = map[string]string{"NCCL_IB_SL": "1"} },
		"network.rdma_devices are Ethernet on rank 1 and  on rank 0: name devices of one kind":                      func(m *description) { m.LinkLayer = "Ethernet" },
		"ranks 0 and 1 are on different hosts, and the cell has them on one node: number the ranks node after node": func(m *description) { m.Host = "b" },
		"ranks 0 and 1 are on one host, and the cell has them on two nodes: start the ranks on 2 hosts":             func(m *description) { m.Node = 1 },
	} {
		require.EqualError(t, agree(two(change)), want)
	}
}
