package launch

import (
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
	// Places are those of the node. Each rank dies with this process.
	Places []rank.Place
}

// Run starts the ranks and waits until all have ended. It writes every line of a rank's
// output to out, after the rank's number and a colon, and a line for each rank that ended.
// How they ended is no error. If a rank does not start, Run kills the others.
func (n Node) Run(out io.Writer) error {
	var mu sync.Mutex
	exits := make(chan Exit, len(n.Places))
	var started []command.Process
	var streams []*lineWriter
	var failed error
	for _, p := range n.Places {
		w := &lineWriter{mu: &mu, each: func(line []byte) error {
			_, err := fmt.Fprintf(out, "%d: %s", p.Rank, line)
			return err
		}}
		c := Local{Program: n.Program}.command(Spec{Store: n.Store}, p)
		c.Stdout, c.Stderr = w, w
		proc, err := n.Starter.Start(c)
		if err != nil {
			failed = fmt.Errorf("start rank %d: %w", p.Rank, err)
			break
		}
		started, streams = append(started, proc), append(streams, w)
	}
	for i, proc := range started {
		if failed != nil {
			proc.Kill()
		}
		go func() {
			status := proc.Wait() // its output is complete now
			if len(streams[i].rest) > 0 {
				_, _ = streams[i].Write([]byte("\n"))
			}
			exits <- Exit{Rank: n.Places[i].Rank, Code: status.Code, Signal: int(status.Signal)}
		}()
	}
	var unwritten error
	for range started {
		e := <-exits
		mu.Lock()
		_, err := fmt.Fprintln(out, endPrefix+e.String())
		mu.Unlock()
		unwritten = errors.Join(unwritten, err)
	}
	return errors.Join(failed, unwritten)
}

// endPrefix begins the lines of a Node that say how a rank ended.
const endPrefix = "cxrun: "

// parseExit reads such a line.
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
