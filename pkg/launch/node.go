package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/rank"
)

// Node runs the ranks of one node of a group as processes of this host. Slurm starts it as
// the only task of a step on its node.
type Node struct {
	Starter command.Starter
	Program []string // starts a rank; its own flags follow
	Store   string
	// Places are the places on the node. Each rank dies with this process.
	Places []rank.Place
}

// Run starts all ranks, or none, and waits until they have ended. It writes every line of a
// rank's output to out, after the rank's number and a colon, and a line for each rank that
// ended. A rank that fails is not an error.
func (n Node) Run(ctx context.Context, out io.Writer) error {
	var mu sync.Mutex
	l := Local{Starter: n.Starter, Program: n.Program}
	ranks, err := l.start(ctx, Spec{Places: n.Places, Store: n.Store}, func(rank int) (io.WriteCloser, error) {
		return &lineWriter{mu: &mu, each: func(line []byte) error {
			_, err := fmt.Fprintf(out, "%d: %s", rank, line)
			return err
		}}, nil
	})
	if err != nil {
		return err
	}
	for e := range ranks.Exits() {
		mu.Lock()
		_, unwritten := fmt.Fprintln(out, endPrefix+e.String())
		mu.Unlock()
		err = errors.Join(err, unwritten)
	}
	return err
}

// endPrefix begins the lines of a Node that report how a rank ended.
const endPrefix = "cxrun: "

func parseExit(line string) (e Exit, is bool) {
	text, is := strings.CutPrefix(line, endPrefix)
	if !is {
		return e, false
	}
	for format, into := range map[string]*int{"rank %d exit %d": &e.Code, "rank %d signal %d": &e.Signal} {
		if n, _ := fmt.Sscanf(text, format, &e.Rank, into); n == 2 {
			return e, e.Rank >= 0
		}
	}
	return Exit{}, false
}

// PlacesOn returns the places of world ranks that are on a node.
func PlacesOn(world, ranksPerNode, node int) []rank.Place {
	return slices.DeleteFunc(Places(world, ranksPerNode), func(p rank.Place) bool { return p.Node != node })
}
