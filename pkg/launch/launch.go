// Package launch starts the ranks of a group, and ends all of them.
package launch

import (
	"context"
	"fmt"

	"github.com/collectivex/collectivex/pkg/rank"
)

// Spec describes the ranks to start.
type Spec struct {
	Places []rank.Place // in rank order
	Store  string       // the store's directory
	// Env is added to the inherited environment and overrides it.
	Env map[string]string
	// LogDir is the directory for one private log file per rank.
	LogDir string
}

// Launcher starts groups of ranks.
type Launcher interface {
	// Start starts all ranks of a group, or none. The group runs until its ranks have ended
	// or Kill is called; ctx limits only the start. If Start returns the error of ctx,
	// ranks that had started are dead, and any that start later are killed.
	Start(ctx context.Context, spec Spec) (Group, error)
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

// For returns the launcher of a cell. If this program does not have it, the returned
// launcher refuses to start, so that every case of the cell fails with the reason.
func For(launcher, container string) Launcher {
	if launcher == "bare" && container == "none" {
		l, err := Self()
		if err == nil {
			return l
		}
		return refusing{err}
	}
	return refusing{fmt.Errorf("this program has no launcher %q with container %q", launcher, container)}
}

// refusing is a Launcher that starts nothing.
type refusing struct{ err error }

// Start implements Launcher.
func (r refusing) Start(context.Context, Spec) (Group, error) { return nil, r.err }
