package launch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/container"
	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/plan"
)

// boxed is this host, whose ranks run in an image.
func boxed(t *testing.T, engine string) (Docker, fakes.Containers) {
	t.Helper()
	tools := fakes.NewContainers(t)
	tools.Push(t, "vendor/libraries:v1", fakes.Digest(1), 70)
	return Docker{
		Engine:    container.Engine{Starter: command.Host{}, Command: []string{engine}, Locks: t.TempDir()},
		Container: container.Image{Ref: "vendor/libraries:v1", Arch: "amd64"}, Args: []string{"--ipc=host"},
		Program: os.Args[0], Scratch: t.TempDir(),
	}, tools
}

func startBoxed(t *testing.T, a Allocation, env map[string]string) (Group, Spec) {
	t.Helper()
	spec := Spec{Places: Places(2, 2), Store: filepath.Join(a.Dir(), "store"), LogDir: filepath.Join(t.TempDir(), "logs"), Env: env}
	g, err := a.Start(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Kill()) })
	return g, spec
}

func logOf(t *testing.T, spec Spec, rank int) string {
	t.Helper()
	log, err := os.ReadFile(LogFile(spec.LogDir, rank))
	require.NoError(t, err)
	return string(log)
}

// The ranks of a group are commands in one container, whose image is named by its content
// and whose variables override those of the image.
func TestRanksInAContainer(t *testing.T) {
	for _, engine := range []string{"docker", "podman"} {
		t.Run(engine, func(t *testing.T) {
			d, tools := boxed(t, engine)
			t.Setenv("FAKE_IMAGE_ENV", "NCCL_DEBUG=image")
			a, err := d.Allocate(t.Context())
			require.NoError(t, err)
			require.Equal(t, fakes.Digest(1), a.Image().Digest)
			require.Equal(t, "image", a.Image().Env["NCCL_DEBUG"])
			t.Setenv("CX_FAULT", "rank=7,kind=kill") // set by hand, it must arrive
			g, spec := startBoxed(t, a, map[string]string{"NCCL_DEBUG": "case", "CX_RANK": "a b;$(c)"})
			for r, e := range exits(g) {
				require.True(t, e.OK(), e)
				require.Equal(t, fmt.Sprintf("case a b;$(c) rank=7,kind=kill rank --shared --store %s --rank %d --world 2 --local-rank %d --node 0\n", spec.Store, r, r), logOf(t, spec, r))
			}
			require.NoError(t, g.Kill())
			for _, line := range tools.Called(t, "docker run") {
				require.Contains(t, line, " --ipc=host sha256:id-0001 hold")
				require.NotContains(t, line, "a b", "arguments are visible to other accounts")
			}
			require.NoError(t, a.Release())
			require.NoDirExists(t, a.Dir())
			require.Len(t, tools.Called(t, "docker pull"), 1)
			require.Empty(t, runningContainers(t))
		})
	}
}

// runningContainers are the names of those that run.
func runningContainers(t *testing.T) (names []string) {
	t.Helper()
	all, err := os.ReadDir(filepath.Join(os.Getenv("FAKE_ENGINE"), "containers"))
	require.NoError(t, err)
	for _, c := range all {
		names = append(names, c.Name())
	}
	return names
}

func TestHungRanksInAContainer(t *testing.T) {
	d, _ := boxed(t, "docker")
	a, err := d.Allocate(t.Context())
	require.NoError(t, err)
	g, spec := startBoxed(t, a, map[string]string{"CX_RANK": "hang"})
	for r := range 2 {
		require.Eventually(t, func() bool { return strings.Contains(logOf(t, spec, r), "up") }, 10*time.Minute, 10*time.Millisecond)
	}
	g.Dump()
	for r, e := range exits(g) {
		require.Equal(t, 2, e.Code, "as the Go runtime ends a process on SIGQUIT")
		require.Contains(t, logOf(t, spec, r), "SIGQUIT: quit")
	}
	require.NoError(t, g.Kill())
	g, spec = startBoxed(t, a, map[string]string{"CX_RANK": "hang"})
	for r := range 2 {
		require.Eventually(t, func() bool { return strings.Contains(logOf(t, spec, r), "up") }, 10*time.Minute, 10*time.Millisecond)
	}
	require.NoError(t, g.Kill())
	require.Len(t, exits(g), 2)
	require.Empty(t, runningContainers(t))
	require.NoError(t, a.Release())
}

// The container of a killed shard ends by itself, and the next cell removes what is left.
func TestTheContainerOfADeadShard(t *testing.T) {
	d, tools := boxed(t, "docker")
	dead, err := d.Allocate(t.Context())
	require.NoError(t, err)
	g, _ := startBoxed(t, dead, map[string]string{"CX_RANK": "hang"})
	name := runningContainers(t)
	require.Len(t, name, 1)
	a := dead.(*dockerAllocation)
	require.NoError(t, a.scratch.Release()) // as the kernel does for a dead process
	require.NoError(t, Hold(t.Context(), a.Dir()))
	next, err := d.Allocate(t.Context())
	require.NoError(t, err)
	require.NoDirExists(t, dead.Dir())
	require.Contains(t, tools.Called(t, "docker rm"), "docker rm --force "+name[0])
	require.Len(t, exits(g), 2)
	require.NoError(t, next.Release())

	held, err := dirlock.Take(t.Context(), t.TempDir(), dirlock.Scratch)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- Hold(t.Context(), held.Dir()) }()
	require.NoError(t, held.Release())
	require.NoError(t, <-ended)
}

func TestContainersThatAreNotReady(t *testing.T) {
	need.Full(t)
	for name, c := range map[string]struct {
		env          string
		change       func(*Docker)
		reason, says string
	}{
		"no such image":              {"", func(d *Docker) { d.Container.Ref = "vendor/libraries:v2" }, "image could not be imported", "manifest unknown): try it on this host"},
		"for another machine":        {"FAKE_IMAGE_ARCH=arm64", func(*Docker) {}, "image is not what its name says", "it was built for linux/arm64 instead of linux/amd64"},
		"a digest in the name":       {"", func(d *Docker) { d.Container.Ref += "@" + fakes.Digest(1) }, "image name", "without a digest"},
		"no engine":                  {"", func(d *Docker) { d.Engine.Command = []string{"nodocker"} }, "nodocker is not installed", "install nodocker"},
		"a bad argument":             {"", func(d *Docker) { d.Args = []string{"--gpus=all"} }, "container does not start", "docker: exit status 125 (unknown flag: --gpus=all)"},
		"the program does not start": {"", func(d *Docker) { d.Program = "/bin/false" }, "no answer from image of node 0", "does the image start there"},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := boxed(t, "docker")
			c.change(&d)
			if variable, value, set := strings.Cut(c.env, "="); set {
				t.Setenv(variable, value)
			}
			_, err := d.Allocate(t.Context())
			unready := &Unready{}
			require.ErrorAs(t, err, &unready)
			require.Equal(t, c.reason, unready.Reason)
			require.ErrorContains(t, err, c.says)
			left, err := os.ReadDir(d.Scratch)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// A container whose start takes longer than its context is neither unready nor unable to start.
func TestAContainerWhoseContextEndsWhileItStarts(t *testing.T) {
	d, _ := boxed(t, "docker")
	a, err := d.Allocate(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	starting := starter(func(c command.Command) (command.Process, error) {
		if c.Args[1] == "run" {
			c.Args = []string{"sleep", "1000"}
			cancel()
		}
		return command.Host{}.Start(c)
	})
	d.Engine.Starter, a.(*dockerAllocation).Engine.Starter = starting, starting
	_, err = d.Allocate(ctx)
	require.ErrorIs(t, err, context.Canceled)

	ctx, cancel = context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err = a.Start(ctx, Spec{Places: Places(2, 2), Store: filepath.Join(a.Dir(), "store"), LogDir: t.TempDir()})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, a.Release())
}

func TestForDocker(t *testing.T) {
	cell := plan.Cell{Launcher: "bare", Container: "docker", Image: "vendor/libraries:v1", Arch: "amd64", Nodes: 1}
	require.Equal(t, []string{"docker"}, For(Request{Cell: cell}).(Docker).Engine.Command)
	r := Request{Cell: cell}
	r.Operator.Docker.Command = []string{"sudo", "podman"}
	require.Equal(t, r.Operator.Docker.Command, For(r).(Docker).Engine.Command)
}
