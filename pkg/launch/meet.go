package launch

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/safefile"
)

// Together returns the place of this process among those that one launcher started with the same command, nil if
// it was started alone. It ignores variables that describe something else: those of torchrun without a local rank,
// which a Kubernetes operator sets for a whole pod, and Slurm's outside of a step, as in a batch script.
func Together(getenv func(string) string) (*Started, error) {
	its := func(name string) string {
		switch name {
		case torchStarter.rank, torchStarter.world, torchStarter.local:
			if getenv(torchStarter.local) == "" || getenv("MASTER_ADDR") == "" {
				return ""
			}
		case slurmStarter.rank, slurmStarter.world, slurmStarter.local:
			if getenv("SLURM_STEP_ID") == "" {
				return ""
			}
		case pmixRank:
			return ""
		}
		return getenv(name)
	}
	if !slices.ContainsFunc(append(slices.Clone(starters), slurmStarter), func(v placeVariables) bool { return its(v.rank) != "" }) {
		return nil, nil //nolint:nilnil // a process that was started alone has no place
	}
	p, err := StartedPlace(its)
	if err != nil || p.World < 2 {
		return nil, err
	}
	if p.by() == pmiStarter { // srun sets variables of PMI, too
		if task, err := slurmStarter.read(its); err == nil && task != nil && task.Rank == p.Rank && task.World == p.World {
			p = *task
		}
	}
	return &p, nil
}

// Member returns the process as a member of its Team. The processes meet where StartedStore says if the user has named
// a store or a token. Otherwise, rank 0 chooses both and writes them down for the others; see meeting.
func (p Started) Member(getenv func(string) string) (m Member, err error) {
	m.Started = &p
	if m.Token = getenv(rendezvous.TokenVariable); m.Token != "" || getenv(StoreVariable) != "" {
		m.Store, err = StartedStore(getenv)
		return m, err
	}
	m.meeting, err = p.meeting(getenv)
	return m, err
}

// oneHost reports whether all processes are on this host, as far as the launcher says so.
func (p Started) oneHost(getenv func(string) string) bool {
	if by := p.by(); by != slurmStarter {
		return getenv(by.onHost) == strconv.Itoa(p.World)
	}
	return getenv("SLURM_STEP_NUM_NODES") == "1"
}

// job returns what only the processes of this start have in common, empty if the launcher does not say it.
func (p Started) job(getenv func(string) string) string {
	var names []string
	switch {
	case p.by() == torchStarter:
		names = []string{"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}
	case p.by() == openMPIStarter && getenv("PMIX_NAMESPACE") != "":
		names = []string{"PMIX_NAMESPACE"}
	case p.by() == slurmStarter:
		names = []string{"SLURM_JOB_ID", "SLURM_STEP_ID"}
	case p.oneHost(getenv):
		return fmt.Sprintf("%s %d", p.Variable, os.Getppid()) // mpirun's process on this host
	default:
		return ""
	}
	id := []string{p.Variable}
	for _, name := range names {
		id = append(id, getenv(name))
	}
	return strings.Join(id, " ")
}

// meeting is where processes that one launcher started find the store that rank 0 serves.
type meeting struct {
	file string // has a card
	host string // where rank 0 listens
}

// card is the content of a meeting's file: how to reach a store over TCP.
type card struct {
	Address string `json:"address"`
	Token   string `json:"token"`
}

// meeting returns where the processes meet. The file is in memory if all processes are on one host. Otherwise it is in
// the cache directory of the account, which the hosts of a cluster share.
func (p Started) meeting(getenv func(string) string) (meeting, error) {
	job := p.job(getenv)
	if job == "" {
		return meeting{}, fmt.Errorf("%s does not say which processes belong together: set MASTER_ADDR and MASTER_PORT to where rank 0 listens, and %s to a random text of at least %d characters, for all",
			p.Launcher(), rendezvous.TokenVariable, minToken)
	}
	dir, host := filepath.Join(rendezvous.Memory(), fmt.Sprintf("collectivex-%d", os.Geteuid())), "127.0.0.1"
	if !p.oneHost(getenv) {
		cache, err := os.UserCacheDir()
		if err != nil {
			return meeting{}, fmt.Errorf("processes on several hosts meet in the cache directory of the account: %w: set XDG_CACHE_HOME, or %s to a directory that all hosts see", err, StoreVariable)
		}
		dir, host = filepath.Join(cache, "collectivex"), getenv("MASTER_ADDR")
		if host == "" {
			if host, err = os.Hostname(); err != nil {
				return meeting{}, err
			}
		}
	}
	if err := ownDirectory(dir, StoreVariable); err != nil {
		return meeting{}, err
	}
	return meeting{filepath.Join(dir, fmt.Sprintf("bench-%x.json", sha256.Sum256([]byte(job)))), strings.Trim(host, "[]")}, nil
}

// maxCard is the maximum size of a card, in bytes.
const maxCard = 4096

// lead serves a store for world processes and writes its card.
func (m meeting) lead(world int) (*rendezvous.Leader, card, error) {
	token := rand.Text()
	l, err := rendezvous.LeadAt(net.JoinHostPort(m.host, "0"), token, world)
	if err != nil {
		return nil, card{}, fmt.Errorf("rank 0 cannot listen at %s: %w: set MASTER_ADDR to an address of its host that the other hosts reach", m.host, err)
	}
	c := card{l.Address(), token}
	if err := os.Remove(m.file); err != nil && !errors.Is(err, os.ErrNotExist) { // of an earlier start that was killed
		return nil, card{}, errors.Join(err, l.Close())
	}
	if err := safefile.WriteJSON(m.file, c); err != nil {
		return nil, card{}, errors.Join(err, l.Close())
	}
	return l, c, nil
}

// find waits for a card whose store answers this rank.
func (m meeting) find(ctx context.Context, rank int) (*rendezvous.Client, card, error) {
	for {
		var c card
		err := safefile.ReadJSON(m.file, maxCard, &c)
		if err == nil {
			hostPort, _ := rendezvous.OverTCP(c.Address)
			client := rendezvous.Dial(hostPort, c.Token)
			if err = client.Put(ctx, fmt.Sprintf("found/rank-%d", rank), nil); err == nil {
				return client, c, nil
			}
			_ = client.Close()
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, card{}, fmt.Errorf("find rank 0: %w", ctx.Err())
			}
			return nil, card{}, fmt.Errorf("rank 0 not found within %s: %w: check that all hosts see %s, and set MASTER_ADDR to an address of the host of rank 0",
				joinLimit, err, filepath.Dir(m.file))
		case <-time.After(pollAgents):
		}
	}
}

// meet opens the store of processes that one launcher started.
func (t *Team) meet(ctx context.Context) (rendezvous.Store, error) {
	m := t.member
	ctx, stop := context.WithTimeout(ctx, joinLimit)
	defer stop()
	var store rendezvous.Store
	var c card
	var err error
	if t.Leads() {
		var l *rendezvous.Leader
		if l, c, err = m.meeting.lead(m.Place.World); err == nil {
			store, t.card = l, m.meeting.file
		}
	} else {
		store, c, err = m.meeting.find(ctx, m.Place.Rank)
	}
	t.member.Store, t.member.Token = c.Address, c.Token
	return store, err
}

// locate sets the place of this process. Launchers number processes in any order. Ranks are numbered host after host,
// in the order of the first process that the launcher started on each.
func (t *Team) locate(ctx context.Context) error {
	me := t.member.Place
	if t.Leads() {
		late := time.AfterFunc(waitNotice, func() {
			t.member.Tell("waiting for all of the %d processes that %s started", me.World, t.member.Started.Launcher())
		})
		defer late.Stop()
	}
	host, err := hostID()
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, joinLimit)
	defer stop()
	hosts, err := gather(ctx, t, "hosts", host)
	if err != nil {
		return err
	}
	places, err := placesOn(hosts)
	if err != nil {
		return Disagreement{err}
	}
	t.member.Place = places[me.Rank]
	return nil
}

// waitNotice is how long rank 0 waits for the others before it says so.
const waitNotice = 10 * time.Second

// placesOn returns the places of processes, given the host of each. Each host must have the same number.
func placesOn(hosts []string) ([]rank.Place, error) {
	var order []string
	count := map[string]int{}
	for _, h := range hosts {
		if count[h]++; count[h] == 1 {
			order = append(order, h)
		}
	}
	perNode := len(hosts) / len(order)
	places := make([]rank.Place, len(hosts))
	for _, h := range order {
		if count[h] != count[order[0]] {
			return nil, fmt.Errorf("%d processes were started on the host of rank 0 and %d on another: start equally many on each", count[order[0]], count[h])
		}
	}
	next := map[string]int{}
	for r, h := range hosts {
		node := slices.Index(order, h)
		places[r] = rank.Place{Rank: node*perNode + next[h], World: len(hosts), LocalRank: next[h], Node: node}
		next[h]++
	}
	return places, nil
}

// Disagreement is an error that all processes of a Team return alike.
type Disagreement struct{ error }

// Unwrap returns the cause.
func (d Disagreement) Unwrap() error { return d.error }
