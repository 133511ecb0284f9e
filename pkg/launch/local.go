package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/rank"
)

// killGrace is the maximum time for killed ranks and the processes that they started to
// end. It is shorter than the time that command.Host gives the latter before it reports the
// end of the former.
const killGrace = 20 * time.Second

// Local runs ranks as processes on this host.
type Local struct {
	Starter command.Starter
	// Program and its arguments start a rank. The rank's own flags follow them.
	Program []string
	// Scratch is the directory in which scratch directories are made.
	Scratch string
}

var _ Launcher = Local{}

// Allocate implements Launcher. It does not wait: the machine is this host.
func (l Local) Allocate(ctx context.Context) (Allocation, error) {
	scratch, err := newScratch(ctx, l.Scratch, nil)
	if err != nil {
		return nil, err
	}
	return &thisHost{l, machines{scratch: scratch}}, nil
}

type thisHost struct {
	Local
	machines
}

// Start implements Allocation. Each rank dies with this process.
func (h *thisHost) Start(ctx context.Context, spec Spec) (Group, error) {
	if last := spec.Places[len(spec.Places)-1]; last.Node > 0 {
		return nil, fmt.Errorf("start ranks: the cell needs %d nodes, and this launcher has one, this host", last.Node+1)
	}
	if err := os.MkdirAll(spec.LogDir, 0o700); err != nil {
		return nil, fmt.Errorf("start ranks: %w", err)
	}
	return h.start(ctx, spec, func(rank int) (io.WriteCloser, error) {
		return os.OpenFile(LogFile(spec.LogDir, rank), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	})
}

// start starts all ranks of spec as processes of this host, or none. open returns the
// destination of a rank's output, which is closed when the rank has ended.
func (l Local) start(ctx context.Context, spec Spec, open func(rank int) (io.WriteCloser, error)) (Group, error) {
	g := &localGroup{exits: make(chan Exit, len(spec.Places))}
	var started []chan error
	var running sync.WaitGroup
	for _, p := range spec.Places {
		start := make(chan error, 1)
		started = append(started, start)
		running.Go(func() { g.run(l.Starter, p.Rank, l.command(spec, p), open, start) })
	}
	go func() {
		running.Wait()
		close(g.exits)
	}()
	var err error
	for i, start := range started {
		select {
		case e := <-start:
			if e != nil {
				err = errors.Join(err, fmt.Errorf("start rank %d: %w", spec.Places[i].Rank, e))
			}
		case <-ctx.Done():
			if err := g.Kill(); err != nil {
				return nil, err
			}
			return nil, errors.Join(err, fmt.Errorf("start rank %d: %w", spec.Places[i].Rank, ctx.Err()))
		}
	}
	if err != nil {
		return nil, errors.Join(err, g.Kill())
	}
	return g, nil
}

func (l Local) command(spec Spec, p rank.Place) command.Command {
	return command.Command{Env: spec.Env, Args: slices.Concat(l.Program, []string{
		"--store", spec.Store,
		"--rank", strconv.Itoa(p.Rank),
		"--world", strconv.Itoa(p.World),
		"--local-rank", strconv.Itoa(p.LocalRank),
		"--node", strconv.Itoa(p.Node),
	})}
}

// LogFile returns the file in dir for the output of a rank.
func LogFile(dir string, rank int) string {
	return filepath.Join(dir, fmt.Sprintf("rank-%d.log", rank))
}

type localGroup struct {
	exits chan Exit

	mu     sync.Mutex
	ranks  []*localRank // those that have started
	killed bool         // ranks that start from now on are killed
}

type localRank struct {
	command.Process

	number int
	ended  chan struct{}
}

// run starts a rank and waits for its end.
func (g *localGroup) run(s command.Starter, number int, c command.Command, open func(rank int) (io.WriteCloser, error), started chan<- error) {
	output, err := open(number)
	if err != nil {
		started <- err
		return
	}
	c.Stdout, c.Stderr = output, output
	p, err := s.Start(c)
	if err != nil {
		output.Close()
		started <- err
		return
	}
	r := &localRank{p, number, make(chan struct{})}
	g.mu.Lock()
	g.ranks = append(g.ranks, r)
	if g.killed {
		r.Kill()
	}
	g.mu.Unlock()
	started <- nil
	status := r.Wait() // its output is complete now
	output.Close()
	close(r.ended)
	g.exits <- Exit{Rank: number, Code: status.Code, Signal: int(status.Signal)}
}

// started returns the ranks that have started. If kill is set, ranks that start
// later are killed.
func (g *localGroup) started(kill bool) []*localRank {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.killed = g.killed || kill
	return slices.Clone(g.ranks)
}

func (g *localGroup) Exits() <-chan Exit { return g.exits }

// Dump implements Group: the Go runtime of a rank prints its stacks on SIGQUIT.
func (g *localGroup) Dump() {
	for _, r := range g.started(false) {
		r.Signal(syscall.SIGQUIT)
	}
}

// Kill implements Group. It waits only for ranks that have started, since a stuck file
// system may delay the others for ever.
func (g *localGroup) Kill() error {
	ranks := g.started(true)
	for _, r := range ranks {
		r.Kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), killGrace)
	defer cancel()
	var alive []int
	for _, r := range ranks {
		select {
		case <-r.ended:
		case <-ctx.Done():
			alive = append(alive, r.number)
		}
	}
	if len(alive) > 0 {
		slices.Sort(alive)
		return fmt.Errorf("ranks %v or their child processes are still alive %s after they were killed", alive, killGrace)
	}
	return nil
}
