// Package launch starts the ranks of a group and ends them, all of them.
package launch

import (
	"context"
	"fmt"

	"github.com/collectivex/collectivex/pkg/rank"
)

// Spec says which ranks to start.
type Spec struct {
	Places []rank.Place // in rank order
	Store  string       // the store's directory
	// Env is set on top of the inherited environment.
	Env map[string]string
	// LogDir takes one private file per rank.
	LogDir string
}

// Launcher starts groups of ranks.
type Launcher interface {
	// Start starts all ranks of a group, or none. The group lives until its ranks
	// have ended or Kill; ctx bounds the start alone. If Start returns ctx's
	// error, ranks that had started are dead, and any that start later are killed.
	Start(ctx context.Context, spec Spec) (Group, error)
}

// Group is the running ranks of one launch.
type Group interface {
	// Exits tells of each rank once, when it has ended, and is closed after the last.
	Exits() <-chan Exit
	// Dump asks all ranks for their stacks, in their logs.
	Dump()
	// Kill ends all ranks and what they started, and returns when nothing is left,
	// or with an error when something does not die, as in a stuck device driver.
	Kill() error
}

// Exit says how a rank ended.
type Exit struct {
	Rank   int
	Code   int // exit status, where Signal is 0
	Signal int
}

// OK reports whether the rank ended by itself and well.
func (e Exit) OK() bool { return e.Code == 0 && e.Signal == 0 }

// String is publishable: numbers alone.
func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("rank %d signal %d", e.Rank, e.Signal)
	}
	return fmt.Sprintf("rank %d exit %d", e.Rank, e.Code)
}

// Places lays world ranks out packed over nodes of ranksPerNode.
func Places(world, ranksPerNode int) []rank.Place {
	places := make([]rank.Place, world)
	for r := range places {
		places[r] = rank.Place{Rank: r, World: world, LocalRank: r % ranksPerNode, Node: r / ranksPerNode}
	}
	return places
}

// For returns the launcher of a cell. One that this program does not have
// refuses to start, so that every case of the cell says so.
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

// refusing starts nothing.
type refusing struct{ err error }

// Start implements Launcher.
func (r refusing) Start(context.Context, Spec) (Group, error) { return nil, r.err }
