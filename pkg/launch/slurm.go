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
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Slurm runs ranks on nodes that Slurm allocates: an allocation for a cell, and a step in
// it for each group. If the Request has a SlurmJob, it uses that allocation, and leaves it
// as it is.
type Slurm struct {
	Request

	Starter command.Starter
	// Queue is the longest wait for the grant; 0 is no limit.
	Queue time.Duration
	// Program is the file of this program, which is copied to where the nodes see it.
	Program string
	// Scratch is the directory in which scratch directories are made. All nodes see it.
	Scratch string
	// Delay is the maximum time until what a node writes in Scratch is visible here.
	Delay time.Duration
}

var _ Launcher = Slurm{}

// jobFile is the file in a scratch directory that names the job that belongs to it. If its
// shard was killed, Cleanup or the next shard on this host cancels the job.
const jobFile = "slurm-job"

// stagedProgram is the copy of this program in a scratch directory.
const stagedProgram = "cxrun"

// Allocate implements Launcher.
func (s Slurm) Allocate(ctx context.Context) (_ Allocation, err error) {
	defer func() { err = s.Operator.Storage.HideIn(err, s.Scratch) }()
	s.Starter = SlurmClient{s.Starter}
	if err := ownDirectory(s.Scratch, "storage.stage"); err != nil {
		return nil, err
	}
	scratch, err := newScratch(ctx, s.Scratch, cancelOf(s.Starter))
	if err != nil {
		return nil, fmt.Errorf("%w: name one in storage.stage whose file system has locks and free space", err)
	}
	if err := s.inherit(ctx); err != nil {
		return nil, errors.Join(err, scratch.Remove())
	}
	a := &slurmAllocation{Slurm: s, machines: machines{scratch: scratch}, id: s.SlurmJob}
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

// inherit forgets the job that this program inherited if it no longer runs. It fails if Slurm does not say so: another
// job would not be where the user wanted to measure.
func (s *Slurm) inherit(ctx context.Context) error {
	if s.SlurmJob == "" {
		return nil
	}
	switch err := running(ctx, s.Starter, s.SlurmJob); {
	case err != nil && !errors.Is(err, errJobOver):
		return fmt.Errorf("%w; try again, or unset SLURM_JOB_ID to request another job", err)
	case err != nil:
		s.tell("SLURM_JOB_ID=%s is ignored and another job requested: %v", s.SlurmJob, err)
		s.SlurmJob, s.SlurmStep = "", ""
	case s.SlurmStep != "":
		s.tell("this program is a step of job %s, so its ranks share the resources of that job with it (srun --overlap)", s.SlurmJob)
	}
	return nil
}

// stage copies a program to a file that may be run.
func stage(from, to string) error {
	program, err := os.Open(from)
	if err == nil {
		defer program.Close()
		err = safefile.WriteAtomic(to, func(w io.Writer) error {
			_, err := io.Copy(w, program)
			return err
		})
	}
	if err == nil {
		err = os.Chmod(to, 0o700)
	}
	if err != nil {
		return fmt.Errorf("copy this program to %s: %w", filepath.Dir(to), err)
	}
	return nil
}

// sallocJob matches salloc's lines about the job. The grant need not be the first.
var sallocJob = regexp.MustCompile(`^salloc: (Pending|Granted) job allocation (\d+)$`)

// sallocGrace is the maximum time for salloc to withdraw a request.
const sallocGrace = 20 * time.Second

// salloc waits for an allocation. It records the id of the job as soon as salloc reports it,
// so that the job can be cancelled even if this process is killed while the job waits.
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
	var limit <-chan time.Time
	if a.Queue > 0 {
		limit = time.After(a.Queue)
	}
	began := time.Now()
	p, err := a.Starter.Start(command.Command{Args: a.sallocArgs(), Stderr: stderr})
	if err != nil {
		return fmt.Errorf("allocate nodes: %w", err)
	}
	var status command.Status
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		status = p.Wait()
	}()
	withdraw := func() {
		p.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(sallocGrace):
			p.Kill()
			<-ended
		}
	}
	select {
	case <-ended:
	case <-ctx.Done():
		withdraw()
		return fmt.Errorf("allocate nodes: %w", ctx.Err())
	case <-limit:
		withdraw()
		return fmt.Errorf("allocate nodes: no grant within %s, so the request was withdrawn; launch.queue_minutes of the platform is the limit", a.Queue)
	}
	a.queued = time.Since(began)
	switch {
	case !granted || !status.OK():
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return fmt.Errorf("allocate nodes: salloc: %w (%s)", status, a.Operator.Slurm.Hide(lines[len(lines)-1]))
	case recorded != nil:
		return fmt.Errorf("record the job of the allocation: %w", recorded)
	}
	return nil
}

func (s Slurm) sallocArgs() []string {
	c, o := s.Cell, s.Operator.Slurm
	args := []string{
		"salloc", "--no-shell", "--job-name=collectivex-" + c.ID, "--nodes=" + strconv.Itoa(c.Nodes),
		"--ntasks-per-node=" + strconv.Itoa(c.GPUsPerNode), "--time=" + strconv.Itoa(c.Minutes),
	}
	if c.Vendor != vocab.Host {
		args = append(args, "--gpus-per-node="+strconv.Itoa(c.GPUsPerNode))
	}
	for _, o := range []struct{ flag, value string }{
		{"--partition=", o.Partition},
		{"--account=", o.Account},
		{"--qos=", o.QOS},
		{"--nodelist=", strings.Join(o.Nodes, ",")},
		{"--exclude=", strings.Join(o.Exclude, ",")},
	} {
		if o.value != "" {
			args = append(args, o.flag+o.value)
		}
	}
	return append(args, c.Launch.Salloc...)
}

// cancel cancels a job, also when ctx has ended. It does nothing without an id.
func cancel(ctx context.Context, s command.Starter, id string) error {
	if id == "" {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
	defer stop()
	if _, err := command.Output(ctx, SlurmClient{s}, command.Command{Args: []string{"scancel", id}}); err != nil {
		return fmt.Errorf("cancel job %s: %w; cancel it with scancel %s", id, err, id)
	}
	return nil
}

// cancelOf returns what cancels the job of an abandoned scratch directory, if it has one.
func cancelOf(s command.Starter) func(ctx context.Context, dir string) error {
	return func(ctx context.Context, dir string) error {
		id, err := os.ReadFile(filepath.Join(dir, jobFile))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return errors.Join(err, cancel(ctx, s, string(id)))
	}
}

type slurmAllocation struct {
	Slurm
	machines

	id     string
	squash string // file of the image in which ranks run; empty for none
}

func (a *slurmAllocation) Release() error {
	return a.Operator.Storage.HideIn(a.release(context.Background()), a.Scratch)
}

func (a *slurmAllocation) release(ctx context.Context) error {
	if a.SlurmJob == "" {
		if err := cancel(ctx, a.Starter, a.id); err != nil {
			return err // the scratch directory says what to cancel
		}
	}
	return a.machines.Release()
}

// errJobOver is the error of a job that does not run.
var errJobOver = errors.New("it was cancelled, a node failed, or its time is over")

// running returns an error unless the job runs; errJobOver if Slurm says so, also of a job that it has forgotten.
func running(ctx context.Context, s command.Starter, job string) error {
	queue, err := command.Output(ctx, s, command.Command{Args: []string{"squeue", "--noheader", "--jobs=" + job, "--format=%A %T"}})
	if failed, ok := errors.AsType[*command.Error](err); err != nil && (!ok || !bytes.Contains(failed.Stderr, []byte("Invalid job id"))) {
		return fmt.Errorf("ask for the state of job %s: %w", job, err)
	}
	for line := range strings.Lines(string(queue)) { // an array job has several
		if strings.TrimSpace(line) == job+" RUNNING" {
			return nil
		}
	}
	return fmt.Errorf("job %s no longer runs: %w", job, errJobOver)
}

// Start implements Allocation. It returns when srun runs; a step that cannot be created
// ends all its ranks.
func (a *slurmAllocation) Start(ctx context.Context, spec Spec) (Group, error) {
	if err := running(ctx, a.Starter, a.id); err != nil {
		return nil, fmt.Errorf("start ranks: %w", err)
	}
	if err := os.MkdirAll(spec.LogDir, 0o700); err != nil {
		return nil, fmt.Errorf("start ranks: %w", err)
	}
	g := &slurmGroup{allocation: a, exits: make(chan Exit, len(spec.Places)), ended: make(chan struct{})}
	logs := newStepLogs(spec, a.taskPerNode(), g.exits)
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

// taskPerNode reports whether a step has one task for each node, which starts the ranks of
// its node, instead of a task for each rank.
func (s Slurm) taskPerNode() bool { return s.Cell.Launch.TaskPer == nodeTask }

func (a *slurmAllocation) srun(spec Spec) []string {
	last, perNode := spec.Places[len(spec.Places)-1], 0
	for _, p := range spec.Places {
		if p.Node == 0 {
			perNode++
		}
	}
	tasks, tasksPerNode := last.World, perNode
	program := []string{filepath.Join(a.Dir(), stagedProgram), "rank", "--slurm", "--store", spec.Store}
	if a.taskPerNode() {
		tasks, tasksPerNode = last.Node+1, 1
		program = []string{
			program[0], "node", "--store", spec.Store, "--world", strconv.Itoa(last.World), "--ranks-per-node", strconv.Itoa(perNode),
		}
	}
	args := append(a.step(last.Node+1, tasks, tasksPerNode),
		"--job-name="+a.stepName(),
		"--distribution=block",
		"--cpu-bind=none",      // a rank chooses its processors itself, near its device
		"--kill-on-bad-exit=1", // a rank that waits for a dead one would wait for ever
	)
	args = append(append(args, a.containerArgs(spec.Env)...), a.Cell.Launch.Srun...)
	return append(args, program...)
}

// stepName names the step of the ranks, and no other step of the job.
func (a *slurmAllocation) stepName() string { return filepath.Base(a.Dir()) }

// step returns the srun command line that all steps of the allocation have in common.
func (a *slurmAllocation) step(nodes, tasks, tasksPerNode int) []string {
	args := []string{
		"srun", "--jobid=" + a.id, "--nodes=" + strconv.Itoa(nodes), "--ntasks=" + strconv.Itoa(tasks),
		"--ntasks-per-node=" + strconv.Itoa(tasksPerNode), "--mpi=none", "--input=none", "--label",
		"--export=ALL", // the variables of the case, among others
	}
	if a.SlurmStep != "" {
		args = append(args, "--overlap") // otherwise it waits for the step of this program to end
	}
	return args
}

// containerArgs are the arguments of srun that start a step in the image. Nothing but the
// directory of the allocation is mounted. The variables of env and the inherited ones
// override the image's, which otherwise win.
func (a *slurmAllocation) containerArgs(env map[string]string) []string {
	if a.squash == "" {
		return nil
	}
	args := []string{"--container-image=" + a.squash, "--container-mounts=" + a.Dir() + ":" + a.Dir(), "--no-container-mount-home"}
	all := inherited()
	maps.Copy(all, env)
	if len(all) > 0 {
		args = append(args, "--container-env="+strings.Join(slices.Sorted(maps.Keys(all)), ","))
	}
	return args
}

// SlurmPlace returns the place of this rank in its step from Slurm's variables.
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

type slurmGroup struct {
	allocation *slurmAllocation
	srun       command.Process
	exits      chan Exit
	ended      chan struct{}
	killed     atomic.Bool
}

// Exits implements Group. A rank that fails is reported when srun reports it, the others
// when srun has ended.
func (g *slurmGroup) Exits() <-chan Exit { return g.exits }

// Dump implements Group. The job may have other steps, also one that this program is part of.
func (g *slurmGroup) Dump() {
	ctx, stop := context.WithTimeout(context.Background(), killGrace)
	defer stop()
	a := g.allocation
	steps, err := command.Output(ctx, a.Starter, command.Command{Args: []string{"squeue", "--noheader", "--steps", "--jobs=" + a.id, "--format=%i %j"}})
	if err != nil {
		return // stacks are optional
	}
	for line := range strings.Lines(string(steps)) {
		if step, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == a.stepName() {
			_, _ = command.Output(ctx, a.Starter, command.Command{Args: []string{"scancel", "--signal=QUIT", step}})
		}
	}
}

// Kill implements Group. On SIGTERM, srun kills its ranks at once.
func (g *slurmGroup) Kill() error {
	g.killed.Store(true)
	g.srun.Signal(syscall.SIGTERM)
	select {
	case <-g.ended:
		return nil
	case <-time.After(killGrace):
	}
	g.srun.Kill() // the step lasts until its job ends
	<-g.ended
	return fmt.Errorf("ranks of job %s or their child processes are still alive %s after they were killed", g.allocation.id, killGrace)
}
