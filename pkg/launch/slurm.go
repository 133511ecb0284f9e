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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/rank"
)

// Slurm runs ranks on nodes that Slurm allocates: an allocation for a cell, and a step in
// it for each group.
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
	// Queue is the longest wait for the grant; 0 is no limit.
	Queue time.Duration
	// TaskPerNode makes a step of one task for each node, which starts the ranks of its
	// node. Otherwise a step has a task for each rank.
	TaskPerNode bool
	// Image is the container image in which ranks run, started by pyxis; empty for none.
	Image        string
	Arch         string // amd64 or arm64
	Images       ImageOperator
	Salloc, Srun []string // further arguments, of the platform
	Slurm        SlurmOperator
	Network      Network // that nodes check; zero for one node
}

// SlurmOperator is where an allocation may land. All of it is private.
type SlurmOperator struct {
	Partition, Account, QOS string
	Nodes, Exclude          []string
}

// jobFile is the file in a scratch directory that names the job that belongs to it. If its
// shard was killed, Cleanup or the next shard on this host cancels the job.
const jobFile = "slurm-job"

// stagedProgram is the copy of this program in a scratch directory.
const stagedProgram = "cxrun"

// Allocate implements Launcher.
func (s Slurm) Allocate(ctx context.Context) (Allocation, error) {
	if err := ownDirectory(s.Scratch, "storage.stage"); err != nil {
		return nil, err
	}
	scratch, err := newScratch(ctx, s.Scratch, func(ctx context.Context, dir string) error { return cancelOf(ctx, s.Starter, dir) })
	if err != nil {
		return nil, err
	}
	a := &slurmAllocation{Slurm: s, scratch: scratch, id: s.Job.Inside}
	if err := stage(s.Program, filepath.Join(scratch.Dir(), stagedProgram)); err != nil {
		return nil, errors.Join(err, scratch.Remove())
	}
	if a.id == "" {
		err = a.salloc(ctx)
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
var sallocJob = regexp.MustCompile(`^salloc: (Pending|Granted) job allocation (\d+)$`)

// sallocGrace is the maximum time for salloc to give a request up.
const sallocGrace = 20 * time.Second

// salloc waits for an allocation. It records the id of the job as soon as salloc says it, so
// that the job can be cancelled even if this process is killed while the job waits.
func (a *slurmAllocation) salloc(ctx context.Context) error {
	var (
		mu       sync.Mutex
		said     bytes.Buffer
		granted  bool
		recorded error
	)
	stderr := &lineWriter{mu: &mu, each: func(line []byte) error {
		said.Write(line)
		if m := sallocJob.FindSubmatch(bytes.TrimSuffix(line, []byte("\n"))); m != nil {
			granted = string(m[1]) == "Granted"
			a.id = string(m[2])
			recorded = os.WriteFile(filepath.Join(a.Dir(), jobFile), []byte(a.id), 0o600)
		}
		return nil
	}}
	limit := make(<-chan time.Time)
	if a.Job.Queue > 0 {
		limit = time.After(a.Job.Queue)
	}
	began := time.Now()
	p, err := a.Starter.Start(command.Command{Args: a.Job.salloc(), Stderr: stderr})
	if err != nil {
		return fmt.Errorf("allocate nodes: %w", err)
	}
	ended := make(chan command.Status, 1)
	go func() { ended <- p.Wait() }()
	withdraw := func() {
		p.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(sallocGrace):
			p.Kill()
			<-ended
		}
	}
	var status command.Status
	select {
	case status = <-ended:
	case <-ctx.Done():
		withdraw()
		return fmt.Errorf("allocate nodes: %w", ctx.Err())
	case <-limit:
		withdraw()
		return fmt.Errorf("allocate nodes: no grant within %s, so the request was withdrawn; launch.queue_minutes of the platform is the limit", a.Job.Queue)
	}
	a.queued = time.Since(began)
	switch {
	case !granted || !status.OK():
		return fmt.Errorf("allocate nodes: salloc: %s (%s)", status, a.Job.lastError(said.String()))
	case recorded != nil:
		return fmt.Errorf("record the job of the allocation: %w", recorded)
	}
	return nil
}

// salloc is the command that asks for the allocation.
func (j Job) salloc() []string {
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
	return append(args, j.Salloc...)
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
func cancel(ctx context.Context, s command.Starter, id string) error {
	if id == "" {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
	defer stop()
	if _, err := command.Output(ctx, s, command.Command{Args: []string{"scancel", id}}); err != nil {
		return fmt.Errorf("cancel job %s: %w; cancel it with scancel %s", id, err, id)
	}
	return nil
}

// cancelOf cancels the job of an abandoned scratch directory, if it has one.
func cancelOf(ctx context.Context, s command.Starter, dir string) error {
	id, err := os.ReadFile(filepath.Join(dir, jobFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, cancel(ctx, s, string(id)))
}

// slurmAllocation is the Allocation of Slurm.
type slurmAllocation struct {
	Slurm

	scratch *dirlock.Claim
	id      string
	image   Image
	queued  time.Duration
}

// Queued implements Allocation.
func (a *slurmAllocation) Queued() time.Duration { return a.queued }

// Dir implements Allocation.
func (a *slurmAllocation) Dir() string { return a.scratch.Dir() }

// Image implements Allocation.
func (a *slurmAllocation) Image() Image { return a.image }

// Release implements Allocation.
func (a *slurmAllocation) Release() error { return a.release(context.Background()) }

func (a *slurmAllocation) release(ctx context.Context) error {
	if a.Job.Inside == "" {
		if err := cancel(ctx, a.Starter, a.id); err != nil {
			return err // the scratch directory says what to cancel
		}
	}
	return a.scratch.Remove()
}

// runs returns an error unless the job still runs: somebody may have cancelled it, or a node
// may have failed.
func (a *slurmAllocation) runs(ctx context.Context) error {
	queue, err := command.Output(ctx, a.Starter, command.Command{Args: []string{"squeue", "--noheader", "--jobs=" + a.id, "--format=%A %T"}})
	if err != nil {
		return fmt.Errorf("ask for the state of job %s: %w", a.id, err)
	}
	for line := range strings.Lines(string(queue)) { // an array job has several
		if strings.TrimSpace(line) == a.id+" RUNNING" {
			return nil
		}
	}
	return fmt.Errorf("job %s no longer runs: it was cancelled, a node failed, or its time is over", a.id)
}

// Start implements Allocation. It returns when srun runs; a step that cannot be created
// ends all its ranks.
func (a *slurmAllocation) Start(ctx context.Context, spec Spec) (Group, error) {
	if err := a.runs(ctx); err != nil {
		return nil, fmt.Errorf("start ranks: %w", err)
	}
	if err := os.MkdirAll(spec.LogDir, 0o700); err != nil {
		return nil, fmt.Errorf("start ranks: %w", err)
	}
	g := &slurmGroup{allocation: a, exits: make(chan Exit, len(spec.Places)), ended: make(chan struct{})}
	logs := newStepLogs(spec, a.Job.TaskPerNode, g.exits)
	var err error
	g.srun, err = a.Starter.Start(command.Command{Args: a.srun(spec), Env: spec.Env, Stdout: logs.stream(), Stderr: logs.stream()})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start ranks: %w", err), logs.close(command.Status{}, false))
	}
	go func() {
		defer close(g.ended)
		defer close(g.exits)
		status := g.srun.Wait()                 // its streams are complete now
		_ = logs.close(status, g.killed.Load()) // a log that is cut short costs no result
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
	tasks, tasksPerNode := last.World, perNode
	program := []string{filepath.Join(a.Dir(), stagedProgram), "rank", "--slurm", "--store", spec.Store}
	if a.Job.TaskPerNode {
		tasks, tasksPerNode = last.Node+1, 1
		program = []string{
			program[0], "node", "--store", spec.Store, "--world", strconv.Itoa(last.World), "--ranks-per-node", strconv.Itoa(perNode),
		}
	}
	args := []string{
		"srun", "--jobid=" + a.id, "--nodes=" + strconv.Itoa(last.Node+1), "--ntasks=" + strconv.Itoa(tasks),
		"--ntasks-per-node=" + strconv.Itoa(tasksPerNode), "--distribution=block", "--mpi=none", "--input=none", "--label",
		"--cpu-bind=none",      // a rank chooses its processors itself, near its device
		"--kill-on-bad-exit=1", // a rank that waits for a dead one would wait for ever
	}
	args = append(append(args, a.containerArgs(spec.Env)...), a.Job.Srun...)
	return append(args, program...)
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
	p, err := slurmStarter.read(getenv)
	if err != nil {
		return rank.Place{}, err
	}
	node, err := strconv.Atoi(getenv("SLURM_NODEID"))
	if err != nil || p == nil || p.Local < 0 {
		return rank.Place{}, fmt.Errorf("SLURM_PROCID is %q and SLURM_NODEID %q: start this rank with srun", getenv("SLURM_PROCID"), getenv("SLURM_NODEID"))
	}
	return rank.Place{Rank: p.Rank, World: p.World, LocalRank: p.Local, Node: node}, nil
}

// slurmGroup is a step.
type slurmGroup struct {
	allocation *slurmAllocation
	srun       command.Process
	exits      chan Exit
	ended      chan struct{}
	killed     atomic.Bool
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
	g.killed.Store(true)
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
