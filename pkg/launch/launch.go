// Package launch gets the machines for the ranks of a cell, starts the ranks there in
// groups, and ends all of them.
package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/container"
	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Launcher gets the machines of one cell.
type Launcher interface {
	// Allocate waits for the machines that the ranks of the cell run on; ctx limits only
	// the wait. The caller releases them.
	Allocate(ctx context.Context) (Allocation, error)
}

// Allocation is the machines that the ranks of a cell run on.
type Allocation interface {
	// Dir is a private directory that this process and all ranks see, for their
	// stores.
	Dir() string
	// Image describes the container image in which ranks run; the zero Image if there is none.
	Image() Image
	// Queued is how long a scheduler took to grant the machines; 0 without a scheduler.
	Queued() time.Duration
	// Start starts all ranks of a group, or none. The group runs until its ranks have ended
	// or Kill is called; ctx limits only the start. If Start returns the error of ctx,
	// ranks that had started are dead, and any that start later are killed.
	Start(ctx context.Context, spec Spec) (Group, error)
	// Release removes Dir and gives the machines back. All groups must have ended.
	Release() error
}

// Image describes a container image.
type Image struct {
	// Digest is the registry's digest of it; empty if it is unknown.
	Digest string
	// Env is the variables for communication libraries that the image sets.
	Env map[string]string
}

// Spec describes the ranks to start.
type Spec struct {
	Places []rank.Place // in rank order
	Store  string       // the address of the store that ranks join
	// Env is added to the inherited environment and overrides it. It may be secret.
	Env map[string]string
	// LogDir is the directory for one private log file per rank.
	LogDir string
}

// Group is the ranks started together.
type Group interface {
	// Exits returns a channel with one Exit for each rank that has ended. It is closed
	// after the last.
	Exits() <-chan Exit
	// Dump makes all ranks write their stacks to their logs.
	Dump()
	// Kill kills all ranks and the processes that they started. It returns when all are
	// dead. It is an error if one does not die, as in a stuck device driver.
	Kill() error
}

// Exit describes how a rank ended.
type Exit struct {
	Rank   int
	Code   int // exit status, if Signal is 0
	Signal int
}

// OK reports whether the rank exited with status 0.
func (e Exit) OK() bool { return e.Code == 0 && e.Signal == 0 }

// String returns numbers only, which may be published.
func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("rank %d signal %d", e.Rank, e.Signal)
	}
	return fmt.Sprintf("rank %d exit %d", e.Rank, e.Code)
}

// Places returns the places of world ranks, packed over nodes of ranksPerNode.
func Places(world, ranksPerNode int) []rank.Place {
	places := make([]rank.Place, world)
	for r := range places {
		places[r] = rank.Place{Rank: r, World: world, LocalRank: r % ranksPerNode, Node: r / ranksPerNode}
	}
	return places
}

// Request is what For needs to know to choose a launcher.
type Request struct {
	// Cell names the launcher, the container and its image, and the nodes.
	Cell     plan.Cell
	Operator operator.Platform
	// SlurmJob is the id of the Slurm allocation that this program runs in, and SlurmStep of the step; or empty.
	SlurmJob, SlurmStep string
	// Tell, if not nil, prints a line for the user.
	Tell func(format string, args ...any)
}

func (r Request) tell(format string, args ...any) {
	if r.Tell != nil {
		r.Tell(format, args...)
	}
}

// For returns the launcher of a cell. If this program cannot run the ranks of the cell,
// Allocate returns the reason, so that every case of the cell fails with it.
func For(r Request) Launcher {
	c := r.Cell
	var lacks []string
	if !slices.Contains(vocab.Containers(c.Launcher), c.Container) {
		lacks = append(lacks, fmt.Sprintf("this program has no launcher %q with container %q", c.Launcher, c.Container))
	}
	if m := r.Operator.Missing(c.Launch.Requires); len(m) > 0 {
		lacks = append(lacks, fmt.Sprintf("operator values of platform %s are missing: %s; write them into the file that CX_OPERATOR_CONFIG names",
			c.SKU, strings.Join(m, ", ")))
	}
	if c.Container == vocab.Pyxis && r.Operator.Storage.Images == "" {
		lacks = append(lacks, fmt.Sprintf("no directory for container images: name one among the operator values of platform %s, as storage.images", c.SKU))
	}
	scratch, err := r.scratchBase()
	if err != nil {
		lacks = append(lacks, err.Error())
	}
	program, err := os.Executable()
	if err != nil {
		lacks = append(lacks, err.Error())
	}
	switch {
	case len(lacks) > 0:
		return refusing{errors.New(strings.Join(lacks, "; "))}
	case c.Launcher == vocab.Slurm:
		return Slurm{
			Starter: command.Host{}, Request: r, Queue: time.Duration(c.QueueMinutes) * time.Minute,
			Program: program, Scratch: scratch, Delay: cacheDelay,
		}
	case c.Container == vocab.Docker:
		engine := r.Operator.Docker.Command
		if len(engine) == 0 {
			engine = []string{vocab.Docker}
		}
		return Docker{
			Engine:    container.Engine{Starter: command.Host{}, Command: engine, Locks: r.Operator.Storage.Locks},
			Container: container.Image{Ref: c.Image, Arch: c.Arch}, Args: c.Launch.Docker, Program: program, Scratch: scratch,
		}
	default:
		return Local{Starter: command.Host{}, Program: []string{program, "rank"}, Scratch: scratch}
	}
}

// Listen returns the address of this host at which the stores of the cell are served over
// TCP; empty for stores in files.
func (r Request) Listen() string {
	switch {
	case r.Cell.Launch.Store != vocab.StoreTCP:
		return ""
	case r.Cell.Launcher == vocab.Bare:
		return "127.0.0.1"
	default:
		return r.Operator.Network.StoreAddress // the cell requires it
	}
}

// cacheDelay is longer than shared file systems cache a directory.
const cacheDelay = 90 * time.Second

// nodeTask is the plan.Launch.TaskPer of platforms whose Slurm tasks are nodes, not ranks.
const nodeTask = "node"

// refusing is a Launcher that allocates nothing.
type refusing struct{ err error }

func (r refusing) Allocate(context.Context) (Allocation, error) { return nil, r.err }

// machines is the part of an Allocation that all launchers share.
type machines struct {
	scratch *dirlock.Claim
	image   Image
	queued  time.Duration
}

func (m *machines) Dir() string           { return m.scratch.Dir() }
func (m *machines) Image() Image          { return m.image }
func (m *machines) Queued() time.Duration { return m.queued }
func (m *machines) Release() error        { return m.scratch.Remove() }
