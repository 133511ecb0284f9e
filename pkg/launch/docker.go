package launch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/container"
	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/safefile"
)

// Docker runs ranks on this host in a container of docker or podman: one container for each
// group, with the ranks as its commands.
type Docker struct {
	Engine    container.Engine
	Container container.Image
	Args      []string // of run, of the platform
	// Program is the file of this program, which is copied to where the container sees it.
	Program string
	// Scratch is the directory in which scratch directories are made.
	Scratch string
}

var _ Launcher = Docker{}

// removeLimit is how long an engine may take to kill what is in a container, or to start a
// command there.
const removeLimit = 2 * time.Minute

// containerFile is the file in a scratch directory that names the container that may be
// running. If its shard was killed, the next one on this host removes it.
const containerFile = "container"

// Allocate implements Launcher. It pulls the image, and proves that the program starts in it
// and sees the directory of the allocation.
func (d Docker) Allocate(ctx context.Context) (Allocation, error) {
	scratch, err := newScratch(ctx, d.Scratch, d.removeOf)
	if err != nil {
		return nil, err
	}
	a := &dockerAllocation{Docker: d, machines: machines{scratch: scratch}}
	if err := a.prepare(ctx); err != nil {
		return nil, errors.Join(err, a.Release())
	}
	return a, nil
}

type dockerAllocation struct {
	Docker
	machines

	pulled container.Pulled
}

func (a *dockerAllocation) prepare(ctx context.Context) error {
	if err := stage(a.Program, filepath.Join(a.Dir(), stagedProgram)); err != nil {
		return err
	}
	p := preparation{Nonce: rand.Text()}
	if err := safefile.WriteJSON(filepath.Join(a.Dir(), preparationFile), p); err != nil {
		return fmt.Errorf("prepare the container: %w", err)
	}
	var err error
	if a.pulled, err = a.Engine.Pull(ctx, a.Container); err != nil {
		return err
	}
	name, err := a.hold(ctx, nil)
	if err != nil {
		return &Unready{Reason: "container does not start", Err: err}
	}
	said, failed := runStep(ctx, a.Engine.Starter, command.Command{Args: a.exec(name, "prepare", "--dir", a.Dir(), "--step", inContainer)}, answerLimit)
	r, err := readReport(ctx, a.Dir(), inContainer, 0, 0, p.Nonce, said, failed)
	a.image = Image{a.pulled.Digest, r.Env}
	return errors.Join(err, a.remove(ctx, name))
}

// hold starts a container that does nothing by itself. Only the directory of the allocation
// is mounted.
func (a *dockerAllocation) hold(ctx context.Context, env map[string]string) (name string, err error) {
	name = "collectivex-" + strings.ToLower(rand.Text())
	if err := os.WriteFile(filepath.Join(a.Dir(), containerFile), []byte(name), 0o600); err != nil {
		return "", fmt.Errorf("start a container: %w", err)
	}
	variables, err := a.writeEnv(env)
	if err != nil {
		return "", fmt.Errorf("start a container: %w", err)
	}
	args := a.Engine.Args("run", "--detach", "--rm", "--user=0:0", "--name="+name, "--volume="+a.Dir()+":"+a.Dir(), "--workdir="+a.Dir(),
		"--env-file="+variables, "--entrypoint="+filepath.Join(a.Dir(), stagedProgram))
	args = append(append(args, a.Args...), a.pulled.ID, "hold", "--dir", a.Dir())
	if said, err := runStep(ctx, a.Engine.Starter, command.Command{Args: args}, answerLimit); err != nil {
		err = fmt.Errorf("start a container of image %s: %w (%s)", a.Container.Ref, err, lastWords(said))
		return "", errors.Join(err, a.remove(ctx, name))
	}
	return name, nil
}

// writeEnv writes the file with the variables of a container, which override the image's: env,
// and the variables of this process that change what communication libraries do.
func (a *dockerAllocation) writeEnv(env map[string]string) (file string, err error) {
	all := inherited()
	maps.Copy(all, env)
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.ContainsRune(all[name], '\n') {
			return "", fmt.Errorf("variable %s has several lines, which containers do not support", name)
		}
		fmt.Fprintf(&lines, "%s=%s\n", name, all[name])
	}
	file = filepath.Join(a.Dir(), "container.env")
	return file, os.WriteFile(file, []byte(lines.String()), 0o600)
}

// exec is a command of this program in a container.
func (a *dockerAllocation) exec(name string, args ...string) []string {
	return append(a.Engine.Args("exec", name, filepath.Join(a.Dir(), stagedProgram)), args...)
}

// removeOf removes the container of an abandoned scratch directory.
func (d Docker) removeOf(ctx context.Context, dir string) error {
	name, err := os.ReadFile(filepath.Join(dir, containerFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, d.remove(ctx, string(name)))
}

// remove kills everything in a container, also when ctx has ended. A container that does
// not exist is not an error.
func (d Docker) remove(ctx context.Context, name string) error {
	said, err := runStep(context.WithoutCancel(ctx), d.Engine.Starter, command.Command{Args: d.Engine.Args("rm", "--force", name)}, removeLimit)
	if err != nil && !strings.Contains(strings.ToLower(said), "no such container") && !strings.Contains(said, "no container with") {
		return fmt.Errorf("remove container %s: %w (%s)", name, err, lastWords(said))
	}
	return nil
}

func (a *dockerAllocation) Start(ctx context.Context, spec Spec) (Group, error) {
	name, err := a.hold(ctx, spec.Env)
	if err != nil {
		return nil, err
	}
	inside := &thisHost{Local: Local{Starter: a.Engine.Starter, Program: a.exec(name, "rank", "--shared")}}
	spec.Env = nil // the container has it
	ranks, err := inside.Start(ctx, spec)
	if err != nil {
		return nil, errors.Join(err, a.remove(ctx, name))
	}
	return &dockerGroup{ranks, a, name}, nil
}

type dockerGroup struct {
	Group

	allocation *dockerAllocation
	name       string
}

// Dump implements Group. The engine passes no signals on to commands in a container.
func (g *dockerGroup) Dump() {
	a := g.allocation
	_, _ = runStep(context.Background(), a.Engine.Starter, command.Command{Args: a.exec(g.name, "hold", "--dir", a.Dir(), "--dump")}, removeLimit) // stacks are optional
}

func (g *dockerGroup) Kill() error {
	return errors.Join(g.allocation.remove(context.Background(), g.name), g.Group.Kill())
}

// pollOwner is how often a container checks that its shard lives.
const pollOwner = time.Second

// Hold keeps a container up until ctx ends or the owner of dir, the directory of the
// allocation, is dead.
func Hold(ctx context.Context, dir string) error {
	marker, err := safefile.Open(filepath.Join(dir, dirlock.Marker))
	if err != nil {
		return err
	}
	defer marker.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollOwner):
		}
		if unix.Flock(int(marker.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
			return nil
		}
	}
}

// DumpRanks makes all ranks that run program write their stacks.
func DumpRanks(program string) {
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range processes {
		raw, _ := os.ReadFile(p) // it may have ended
		var pid int
		if args := strings.Split(string(raw), "\x00"); len(args) > 1 && args[0] == program && args[1] == "rank" {
			if n, _ := fmt.Sscanf(p, "/proc/%d/cmdline", &pid); n == 1 {
				_ = unix.Kill(pid, unix.SIGQUIT)
			}
		}
	}
}
