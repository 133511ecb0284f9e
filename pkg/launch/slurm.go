package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/collectivex/collectivex/pkg/claim"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/rank"
)

// Slurm runs ranks on nodes that Slurm allocates: an allocation for a cell, and a step in
// it for each group, with a task for each rank.
type Slurm struct {
	Starter command.Starter
	Job     Job
	// Program is the file of this program, which is copied to where the nodes see it.
	Program string
	// Scratch is the directory in which scratch directories are made. All nodes see it.
	Scratch string
	// Delay is the maximum time until what a node writes in Scratch is visible here.
	Delay time.Duration
}

var _ Launcher = Slurm{}

// Job is the allocation of a cell.
type Job struct {
	// Inside is the id of an allocation that this program already runs in, or empty. That
	// one is then used, and left as it is.
	Inside  string
	Name    string
	Nodes   int
	Tasks   int // of a node, at most
	GPUs    int // of a node; 0 asks for none
	Minutes int
	// Image is the container image in which ranks run, started by pyxis; empty for none.
	Image        string
	Arch         string // amd64 or arm64
	Images       ImageOperator
	Salloc, Srun []string // further arguments, of the platform
	Slurm        SlurmOperator
}

// SlurmOperator is where an allocation may land. All of it is private.
type SlurmOperator struct {
	Partition, Account, QOS string
	Nodes, Exclude          []string
}

// jobFile is the file in a scratch directory that names the allocation that belongs to it.
// If its shard was killed, the next one that allocates on this host cancels it.
const jobFile = "slurm-job"

// stagedProgram is the copy of this program in a scratch directory.
const stagedProgram = "cxrun"

// Allocate implements Launcher.
func (s Slurm) Allocate(ctx context.Context) (Allocation, error) {
	if err := ownDirectory(s.Scratch); err != nil {
		return nil, err
	}
	scratch, err := newScratch(ctx, s.Scratch, s.cancelOf)
	if err != nil {
		return nil, err
	}
	a := &slurmAllocation{Slurm: s, scratch: scratch, id: s.Job.Inside}
	if err := stage(s.Program, filepath.Join(scratch.Dir(), stagedProgram)); err != nil {
		return nil, errors.Join(err, scratch.Remove())
	}
	if a.id == "" {
		if a.id, err = s.salloc(ctx); err == nil {
			err = os.WriteFile(filepath.Join(scratch.Dir(), jobFile), []byte(a.id), 0o600)
		}
	}
	if err == nil {
		err = a.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, a.release(ctx))
	}
	return a, nil
}

// stage copies a program to a file that may be run.
func stage(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy this program to %s: %w", filepath.Dir(to), err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	return nil
}

// What salloc says of the job on standard error. The grant need not be the first line.
var (
	granted = regexp.MustCompile(`(?m)^salloc: Granted job allocation (\d+)$`)
	pending = regexp.MustCompile(`(?m)^salloc: Pending job allocation (\d+)$`)
)

// sallocGrace is the maximum time for salloc to give a request up.
const sallocGrace = 20 * time.Second

// salloc waits for an allocation and returns its id.
func (s Slurm) salloc(ctx context.Context) (string, error) {
	j := s.Job
	args := []string{
		"salloc", "--no-shell", "--job-name=" + j.Name, "--nodes=" + strconv.Itoa(j.Nodes),
		"--ntasks-per-node=" + strconv.Itoa(j.Tasks), "--time=" + strconv.Itoa(j.Minutes),
	}
	if j.GPUs > 0 {
		args = append(args, "--gpus-per-node="+strconv.Itoa(j.GPUs))
	}
	for _, o := range []struct{ flag, value string }{
		{"--partition=", j.Slurm.Partition},
		{"--account=", j.Slurm.Account},
		{"--qos=", j.Slurm.QOS},
		{"--nodelist=", strings.Join(j.Slurm.Nodes, ",")},
		{"--exclude=", strings.Join(j.Slurm.Exclude, ",")},
	} {
		if o.value != "" {
			args = append(args, o.flag+o.value)
		}
	}
	var said bytes.Buffer
	p, err := s.Starter.Start(command.Command{Args: append(args, j.Salloc...), Stderr: &said})
	if err != nil {
		return "", fmt.Errorf("allocate nodes: %w", err)
	}
	ended := make(chan command.Status, 1)
	go func() { ended <- p.Wait() }()
	var status command.Status
	select {
	case status = <-ended:
	case <-ctx.Done():
		p.Signal(syscall.SIGTERM) // it withdraws the request
		select {
		case status = <-ended:
		case <-time.After(sallocGrace):
			p.Kill()
			status = <-ended
		}
	}
	id := first(granted, said.String())
	switch {
	case ctx.Err() != nil:
		if id == "" {
			id = first(pending, said.String())
		}
		return "", errors.Join(fmt.Errorf("allocate nodes: %w", ctx.Err()), s.cancel(ctx, id))
	case id == "" || !status.OK():
		return "", errors.Join(fmt.Errorf("allocate nodes: salloc: %s (%s)", status, j.lastError(said.String())), s.cancel(ctx, id))
	}
	return id, nil
}

func first(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// lastError is the last line of what Slurm said, without the operator's values.
func (j Job) lastError(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return j.hide(lines[len(lines)-1])
}

// hide replaces the operator's values in a text by their names.
func (j Job) hide(text string) string {
	for name, values := range map[string][]string{
		"slurm.partition": {j.Slurm.Partition}, "slurm.account": {j.Slurm.Account}, "slurm.qos": {j.Slurm.QOS},
		"slurm.nodes": j.Slurm.Nodes, "slurm.exclude": j.Slurm.Exclude,
	} {
		for _, v := range values {
			if v != "" {
				text = strings.ReplaceAll(text, v, "<"+name+">")
			}
		}
	}
	return text
}

// cancel cancels a job, also when ctx has ended; an empty id is none.
func (s Slurm) cancel(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
	defer stop()
	if _, err := command.Output(ctx, s.Starter, command.Command{Args: []string{"scancel", id}}); err != nil {
		return fmt.Errorf("cancel job %s: %w; cancel it with scancel %s", id, err, id)
	}
	return nil
}

// cancelOf cancels the allocation of an abandoned scratch directory.
func (s Slurm) cancelOf(ctx context.Context, dir string) error {
	id, err := os.ReadFile(filepath.Join(dir, jobFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, s.cancel(ctx, string(id)))
}

// slurmAllocation is the Allocation of Slurm.
type slurmAllocation struct {
	Slurm

	scratch *claim.Claim
	id      string
	image   Image
}

// Dir implements Allocation.
func (a *slurmAllocation) Dir() string { return a.scratch.Dir() }

// Image implements Allocation.
func (a *slurmAllocation) Image() Image { return a.image }

// Release implements Allocation.
func (a *slurmAllocation) Release() error { return a.release(context.Background()) }

func (a *slurmAllocation) release(ctx context.Context) error {
	if a.Job.Inside == "" {
		if err := a.cancel(ctx, a.id); err != nil {
			return err // the scratch directory says what to cancel
		}
	}
	return a.scratch.Remove()
}

// Start implements Allocation. It returns when srun runs; a step that cannot be created
// ends all its ranks.
func (a *slurmAllocation) Start(_ context.Context, spec Spec) (Group, error) {
	if err := os.MkdirAll(spec.LogDir, 0o700); err != nil {
		return nil, fmt.Errorf("start ranks: %w", err)
	}
	g := &slurmGroup{allocation: a, exits: make(chan Exit, len(spec.Places)), ended: make(chan struct{})}
	logs := &stepLogs{dir: spec.LogDir, exits: g.exits, told: make([]bool, len(spec.Places)), files: map[string]*os.File{}}
	var err error
	g.srun, err = a.Starter.Start(command.Command{
		Args: a.srun(spec), Env: spec.Env, Stdout: &stepStream{stepLogs: logs}, Stderr: &stepStream{stepLogs: logs},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start ranks: %w", err), logs.close(command.Status{}))
	}
	go func() {
		defer close(g.ended)
		defer close(g.exits)
		status := g.srun.Wait() // its streams are complete now
		_ = logs.close(status)  // a log that is cut short costs no result
	}()
	return g, nil
}

// srun is the command of a step.
func (a *slurmAllocation) srun(spec Spec) []string {
	last, perNode := spec.Places[len(spec.Places)-1], 0
	for _, p := range spec.Places {
		if p.Node == 0 {
			perNode++
		}
	}
	args := []string{
		"srun", "--jobid=" + a.id, "--nodes=" + strconv.Itoa(last.Node+1), "--ntasks=" + strconv.Itoa(last.World),
		"--ntasks-per-node=" + strconv.Itoa(perNode), "--distribution=block", "--mpi=none", "--input=none", "--label",
		"--cpu-bind=none",      // a rank chooses its processors itself, near its device
		"--kill-on-bad-exit=1", // a rank that waits for a dead one would wait for ever
	}
	args = append(append(args, a.containerArgs(spec.Env)...), a.Job.Srun...)
	return append(args, filepath.Join(a.Dir(), stagedProgram), "rank", "--slurm", "--store", spec.Store)
}

// containerArgs are the arguments of srun that start a step in the image. Nothing but the
// directory of the allocation is mounted. The variables of env and the inherited ones
// override the image's, which otherwise win.
func (a *slurmAllocation) containerArgs(env map[string]string) []string {
	if a.Job.Image == "" {
		return nil
	}
	args := []string{"--container-image=" + a.Job.Image, "--container-mounts=" + a.Dir() + ":" + a.Dir(), "--no-container-mount-home"}
	all := inherited()
	maps.Copy(all, env)
	if len(all) > 0 {
		args = append(args, "--container-env="+strings.Join(slices.Sorted(maps.Keys(all)), ","))
	}
	return args
}

// SlurmPlace is the place of this rank in its step, as Slurm's variables say.
func SlurmPlace(getenv func(string) string) (rank.Place, error) {
	var p rank.Place
	for _, v := range []struct {
		name string
		into *int
	}{{"SLURM_PROCID", &p.Rank}, {"SLURM_NTASKS", &p.World}, {"SLURM_LOCALID", &p.LocalRank}, {"SLURM_NODEID", &p.Node}} {
		n, err := strconv.Atoi(getenv(v.name))
		if err != nil {
			return p, fmt.Errorf("%s is %q: start this rank with srun", v.name, getenv(v.name))
		}
		*v.into = n
	}
	return p, nil
}

// slurmGroup is a step.
type slurmGroup struct {
	allocation *slurmAllocation
	srun       command.Process
	exits      chan Exit
	ended      chan struct{}
}

// Exits implements Group. Ranks that fail are told of when srun says so, the others when
// it has ended.
func (g *slurmGroup) Exits() <-chan Exit { return g.exits }

// Dump implements Group.
func (g *slurmGroup) Dump() {
	ctx, stop := context.WithTimeout(context.Background(), killGrace)
	defer stop()
	s, id := g.allocation.Starter, g.allocation.id
	steps, err := command.Output(ctx, s, command.Command{Args: []string{"squeue", "--noheader", "--steps", "--jobs=" + id, "--format=%i"}})
	if err != nil {
		return // a dump is a help, not a result
	}
	for step := range strings.FieldsSeq(string(steps)) {
		if _, number, _ := strings.Cut(step, "."); strings.Trim(number, "0123456789") == "" {
			_, _ = command.Output(ctx, s, command.Command{Args: []string{"scancel", "--signal=QUIT", step}})
		}
	}
}

// Kill implements Group. srun kills its ranks at once when it is told to end.
func (g *slurmGroup) Kill() error {
	g.srun.Signal(syscall.SIGTERM)
	select {
	case <-g.ended:
		return nil
	case <-time.After(killGrace):
	}
	g.srun.Kill() // a process that is left cancels the step
	<-g.ended
	return fmt.Errorf("ranks of job %s, or what they started, do not die within %s", g.allocation.id, killGrace)
}

// How srun says that tasks ended.
var (
	endOf     = regexp.MustCompile(`^srun: error: [^:]+: tasks? ([0-9,-]+): (.+)$`)
	exitCode  = regexp.MustCompile(`^Exited with exit code (\d+)$`)
	endSignal = map[string]syscall.Signal{
		"Aborted": syscall.SIGABRT, "Bus error": syscall.SIGBUS, "Floating point exception": syscall.SIGFPE, "Illegal instruction": syscall.SIGILL,
		"Killed": syscall.SIGKILL, "Out Of Memory": syscall.SIGKILL, "Quit": syscall.SIGQUIT, "Segmentation fault": syscall.SIGSEGV, "Terminated": syscall.SIGTERM,
	}
)

// ends returns how the tasks ended that a line of srun is about.
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
	for _, how.Rank = range members(m[1]) {
		exits = append(exits, how)
	}
	return exits
}

// members are the numbers of a list such as 0,2-4.
func members(list string) (all []int) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, is := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if is {
			last, err = strconv.Atoi(to)
		}
		if err != nil || last-first > 1<<20 {
			continue
		}
		for n := first; n <= last; n++ {
			all = append(all, n)
		}
	}
	return all
}

// stepLogs gives each rank its log out of what srun --label writes: lines that begin with
// the rank's number and a colon. Other lines are srun's own, and may say how ranks ended.
type stepLogs struct {
	dir   string
	exits chan<- Exit

	mu    sync.Mutex
	told  []bool // by rank: its exit was told
	files map[string]*os.File
}

// stepStream is one of srun's two streams.
type stepStream struct {
	*stepLogs

	rest []byte // of a line that is not complete
}

// Write implements io.Writer.
func (s *stepStream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	for {
		end := bytes.IndexByte(s.rest, '\n')
		if end < 0 {
			return len(p), nil
		}
		if err := s.line(s.rest[:end+1]); err != nil {
			return 0, err
		}
		s.rest = s.rest[end+1:]
	}
}

func (l *stepLogs) line(line []byte) error {
	if label, text, is := bytes.Cut(line, []byte(": ")); is {
		if r, err := strconv.Atoi(strings.TrimSpace(string(label))); err == nil && r >= 0 && r < len(l.told) {
			return l.write(LogFile(l.dir, r), text)
		}
	}
	for _, e := range ends(strings.TrimSuffix(string(line), "\n")) {
		l.tell(e)
	}
	return l.write(filepath.Join(l.dir, "srun.log"), line)
}

// tell tells the end of a rank once.
func (l *stepLogs) tell(e Exit) {
	if e.Rank < len(l.told) && !l.told[e.Rank] {
		l.told[e.Rank] = true
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

// close closes the logs and tells the end of all other ranks. If srun failed and named no
// rank, as when the step could not be created or the job was cancelled, they have its
// status. A status of 0 does not prove that a rank has done its work: its records do.
func (l *stepLogs) close(status command.Status) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.files {
		err = errors.Join(err, f.Close())
	}
	how := Exit{}
	if !slices.Contains(l.told, true) {
		how = Exit{Code: status.Code, Signal: int(status.Signal)}
	}
	for how.Rank = range l.told {
		l.tell(how)
	}
	return err
}
