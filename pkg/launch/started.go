package launch

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// Started is the rank of a process that an external launcher started: mpirun, torchrun, a
// Kubernetes job, or a bare srun.
type Started struct {
	Rank, World int
	Local       int    // rank within its node; -1 if unknown
	Variable    string // the one with the rank
}

// placeVariables has the variables in which a launcher passes the place of a rank, and the number of ranks on its host
// if there is such a variable.
type placeVariables struct{ launcher, rank, world, local, onHost string }

var (
	// torchStarter has variables that Kubernetes operators and users set, too.
	torchStarter   = placeVariables{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}
	openMPIStarter = placeVariables{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}
	// pmiStarter has the variables of MPICH, Intel MPI, and srun --mpi=pmi2.
	pmiStarter = placeVariables{"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}
	// slurmStarter has the variables of srun, also for steps that this program starts itself.
	slurmStarter = placeVariables{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""}
)

// starters are in order of precedence. Slurm's are not among them: they count only if no others
// are set, since a program that srun starts may start the ranks.
var starters = []placeVariables{torchStarter, openMPIStarter, pmiStarter}

// by returns the variables of the launcher that started the process.
func (p Started) by() placeVariables {
	for _, v := range starters {
		if v.rank == p.Variable {
			return v
		}
	}
	return slurmStarter
}

// Launcher names the launcher that started the process.
func (p Started) Launcher() string { return p.by().launcher }

// pmixRank is set by mpirun and by srun --mpi=pmix beside their own variables. PMIx has no
// variable for the number of ranks.
const pmixRank = "PMIX_RANK"

// StartedPlace reads the variables of external launchers. It fails if they contradict each other,
// since one of them is then not for this process.
func StartedPlace(getenv func(string) string) (Started, error) {
	var chosen *Started
	for _, by := range starters {
		p, err := by.read(getenv)
		switch {
		case err != nil:
			return Started{}, err
		case p == nil:
		case chosen == nil:
			chosen = p
		case p.Rank != chosen.Rank || p.World != chosen.World:
			return Started{}, fmt.Errorf("%s says rank %d of %d, and %s says rank %d of %d: unset the variables that are not for this process",
				chosen.Variable, chosen.Rank, chosen.World, p.Variable, p.Rank, p.World)
		}
	}
	if chosen == nil {
		var err error
		if chosen, err = slurmStarter.read(getenv); err != nil {
			return Started{}, err
		}
	}
	pmix := getenv(pmixRank)
	switch {
	case chosen == nil && pmix != "":
		return Started{}, fmt.Errorf("%s is set, but no variable has the number of ranks: set RANK, WORLD_SIZE and LOCAL_RANK", pmixRank)
	case chosen == nil:
		return Started{}, errors.New("no variable has the rank of this process: start it with mpirun, torchrun or srun, or set RANK, WORLD_SIZE and LOCAL_RANK")
	case pmix != "" && chosen.Variable != torchStarter.rank && pmix != strconv.Itoa(chosen.Rank):
		return Started{}, fmt.Errorf("%s says rank %d, and %s says rank %s: unset the variable that is not for this process", chosen.Variable, chosen.Rank, pmixRank, pmix)
	}
	return *chosen, nil
}

// read returns the values of the variables, nil if they are not set.
func (v placeVariables) read(getenv func(string) string) (*Started, error) {
	if getenv(v.rank) == "" && getenv(v.world) == "" {
		return nil, nil //nolint:nilnil // variables that are not set are not an error
	}
	p := Started{Local: -1, Variable: v.rank}
	for _, number := range []struct {
		name     string
		into     *int
		optional bool
	}{{v.rank, &p.Rank, false}, {v.world, &p.World, false}, {v.local, &p.Local, true}} {
		text := getenv(number.name)
		if text == "" && number.optional {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s is %q beside %s=%s: want a number from 0", number.name, text, v.rank, getenv(v.rank))
		}
		*number.into = n
	}
	if p.Rank >= p.World || p.Local >= p.World {
		return nil, fmt.Errorf("%s=%d and %s=%s do not fit %s=%d: ranks are numbered from 0", v.rank, p.Rank, v.local, getenv(v.local), v.world, p.World)
	}
	return &p, nil
}

// Place returns the place of the rank on nodes with ranksPerNode ranks each, which are numbered
// node after node.
func (p Started) Place(nodes, ranksPerNode int) (rank.Place, error) {
	place := rank.Place{Rank: p.Rank, World: p.World, LocalRank: p.Rank % ranksPerNode, Node: p.Rank / ranksPerNode}
	switch {
	case p.World != nodes*ranksPerNode:
		return place, fmt.Errorf("%d ranks were started (%s), and the cell needs %d: %d on each of %d nodes", p.World, p.Variable, nodes*ranksPerNode, ranksPerNode, nodes)
	case p.Local >= 0 && p.Local != place.LocalRank:
		return place, fmt.Errorf("rank %d has local rank %d (%s), and the cell needs %d: number the ranks node after node, %d on each, as mpirun --map-by ppr:%d:node and srun --distribution=block do",
			p.Rank, p.Local, p.Variable, place.LocalRank, ranksPerNode, ranksPerNode)
	}
	return place, nil
}

// StoreVariable has the address of the store of ranks that an external launcher started: a
// directory that all of them see, or tcp://HOST:PORT, where rank 0 listens.
const StoreVariable = "CX_STORE"

// StartedStore returns the address of the store of ranks that an external launcher started:
// StoreVariable or, without it, the port in MASTER_ADDR and MASTER_PORT.
func StartedStore(getenv func(string) string) (string, error) {
	address := getenv(StoreVariable)
	if host, port := getenv("MASTER_ADDR"), getenv("MASTER_PORT"); address == "" && host != "" && port != "" {
		if getenv("TORCHELASTIC_USE_AGENT_STORE") == "True" {
			return "", fmt.Errorf("torchrun itself listens at MASTER_PORT: set %s to a directory that all ranks see, or to tcp://HOST:PORT with another port", StoreVariable)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", fmt.Errorf("MASTER_PORT is %q: want a port from 1 to 65535; Kubernetes sets it to a URL for a service called master, so set %s to tcp://HOST:PORT there", port, StoreVariable)
		}
		address = rendezvous.Address(net.JoinHostPort(strings.Trim(host, "[]"), port))
	}
	hostPort, tcp := rendezvous.OverTCP(address)
	_, port, err := net.SplitHostPort(hostPort)
	switch token := getenv(rendezvous.TokenVariable); {
	case address == "":
		return "", fmt.Errorf("%s is empty: set it to a directory that all ranks see, or to tcp://HOST:PORT of the host of rank 0", StoreVariable)
	case !tcp && strings.Contains(address, "://"), tcp && (err != nil || port == "" || port == "0"):
		return "", fmt.Errorf("%s is %q: want a directory or tcp://HOST:PORT", StoreVariable, address)
	case tcp && len(token) < minToken:
		return "", fmt.Errorf("%s has %d characters: a store over TCP needs one random text of at least %d for all ranks", rendezvous.TokenVariable, len(token), minToken)
	}
	return address, nil
}

// minToken is the minimum length of a token.
const minToken = 16
