package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// Forms of srun's lines about tasks that ended.
var (
	endOf     = regexp.MustCompile(`^srun: error: [^:]+: tasks? ([0-9,-]+): (.+)$`)
	exitCode  = regexp.MustCompile(`^Exited with exit code (\d+)$`)
	endSignal = map[string]syscall.Signal{
		"Aborted": syscall.SIGABRT, "Bus error": syscall.SIGBUS, "Floating point exception": syscall.SIGFPE, "Illegal instruction": syscall.SIGILL,
		"Killed": syscall.SIGKILL, "Out Of Memory": syscall.SIGKILL, "Quit": syscall.SIGQUIT, "Segmentation fault": syscall.SIGSEGV, "Terminated": syscall.SIGTERM,
	}
)

// ends returns how the tasks ended that a line of srun names.
func ends(line string) (exits []Exit) {
	m := endOf.FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	how := Exit{Code: 1}
	if code := exitCode.FindStringSubmatch(m[2]); code != nil {
		how.Code, _ = strconv.Atoi(code[1])
	} else if s, known := endSignal[strings.TrimSuffix(m[2], " (core dumped)")]; known {
		how = Exit{Signal: int(s)}
	}
	for _, how.Rank = range sysfs.Numbers(m[1]) {
		exits = append(exits, how)
	}
	return exits
}

// stepLogs separates the output of a step. srun --label writes the task's number and a colon
// before each line of a task. Other lines are srun's own, and may say how tasks ended. A task
// that is a Node writes the lines of its ranks the same way.
type stepLogs struct {
	dir   string
	exits chan<- Exit
	tasks [][]int // the ranks of each task

	mu    sync.Mutex
	ended []bool // by rank: its exit was reported
	files map[string]*os.File
}

func newStepLogs(spec Spec, taskPerNode bool, exits chan<- Exit) *stepLogs {
	l := &stepLogs{dir: spec.LogDir, exits: exits, ended: make([]bool, len(spec.Places)), files: map[string]*os.File{}}
	for _, p := range spec.Places {
		task := p.Rank
		if taskPerNode {
			task = p.Node
		}
		if task == len(l.tasks) {
			l.tasks = append(l.tasks, nil)
		}
		l.tasks[task] = append(l.tasks[task], p.Rank)
	}
	return l
}

// stream returns a writer for one of srun's two streams.
func (l *stepLogs) stream() io.Writer { return &lineWriter{mu: &l.mu, each: l.line} }

// lineWriter calls each with every complete line that is written to it, newline included,
// while it holds mu.
type lineWriter struct {
	mu   *sync.Mutex
	each func(line []byte) error
	rest []byte // of a line that is not complete
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		end := bytes.IndexByte(w.rest, '\n')
		if end < 0 {
			return len(p), nil
		}
		if err := w.each(w.rest[:end+1]); err != nil {
			return 0, err
		}
		w.rest = w.rest[end+1:]
	}
}

// Close completes the last line.
func (w *lineWriter) Close() error {
	if len(w.rest) == 0 {
		return nil
	}
	_, err := w.Write([]byte("\n"))
	return err
}

// labelled splits a line into the number before its first colon, which must be below limit,
// and its text.
func labelled(line []byte, limit int) (number int, text []byte, is bool) {
	label, text, is := bytes.Cut(line, []byte(": "))
	if !is {
		return 0, nil, false
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(label)))
	return number, text, err == nil && number >= 0 && number < limit
}

func (l *stepLogs) line(line []byte) error {
	task, text, of := labelled(line, len(l.tasks))
	switch {
	case !of:
		for _, e := range ends(strings.TrimSuffix(string(line), "\n")) {
			if e.Rank < len(l.tasks) {
				for _, r := range l.tasks[e.Rank] { // srun numbers tasks
					l.report(Exit{Rank: r, Code: e.Code, Signal: e.Signal})
				}
			}
		}
		return l.write(filepath.Join(l.dir, "srun.log"), line)
	case len(l.tasks) == len(l.ended):
		return l.write(LogFile(l.dir, l.tasks[task][0]), text)
	default:
		return l.nodeLine(task, text)
	}
}

func (l *stepLogs) nodeLine(task int, line []byte) error {
	if r, text, of := labelled(line, len(l.ended)); of {
		return l.write(LogFile(l.dir, r), text)
	}
	if e, is := parseExit(strings.TrimSuffix(string(line), "\n")); is {
		l.report(e)
	}
	return l.write(filepath.Join(l.dir, fmt.Sprintf("node-%d.log", task)), line)
}

// report reports the end of a rank, once.
func (l *stepLogs) report(e Exit) {
	if e.Rank < len(l.ended) && !l.ended[e.Rank] {
		l.ended[e.Rank] = true
		l.exits <- e
	}
}

func (l *stepLogs) write(path string, line []byte) error {
	f := l.files[path]
	if f == nil {
		var err error
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return err
		}
		l.files[path] = f
	}
	_, err := f.Write(line)
	return err
}

// close closes the logs and reports the end of all other ranks. If srun failed and named no
// rank, as when the step could not be created or the job was cancelled, they have its
// status. If the step was killed, srun may name some ranks only, and the others count as
// killed. A status of 0 does not prove that a rank has done its work; only its records do.
func (l *stepLogs) close(status command.Status, killed bool) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.files {
		err = errors.Join(err, f.Close())
	}
	how := Exit{}
	switch {
	case status.OK():
	case killed:
		how = Exit{Signal: int(syscall.SIGKILL)}
	case !slices.Contains(l.ended, true):
		how = Exit{Code: status.Code, Signal: int(status.Signal)}
	}
	for how.Rank = range l.ended {
		l.report(how)
	}
	return err
}

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
