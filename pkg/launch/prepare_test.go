package launch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/container"
	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// TestMain makes the copy of this program that stand-ins start in containers and on nodes do
// what cxrun does there. As a rank, it does what the variable CX_RANK says.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || !slices.Contains([]string{"prepare", "hold", "rank"}, os.Args[1]) {
		os.Exit(m.Run())
	}
	if err := stoodIn(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func stoodIn() error {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute) // the longest that a test lasts
	defer stop()
	switch verb := os.Args[1]; {
	case verb == "prepare":
		node, _ := strconv.Atoi(os.Getenv("SLURM_NODEID"))
		return Prepare(ctx, command.Host{}, os.Args[3], os.Args[5], node)
	case verb == "hold" && os.Args[len(os.Args)-1] == "--dump":
		DumpRanks(os.Args[0])
	case verb == "hold":
		return Hold(ctx, os.Args[3])
	case os.Getenv("CX_RANK") == "hang":
		fmt.Fprintln(os.Stderr, "up")
		<-ctx.Done()
	default:
		fmt.Fprintln(os.Stderr, os.Getenv("NCCL_DEBUG"), os.Getenv("CX_RANK"), os.Getenv("CX_FAULT"), strings.Join(os.Args[1:], " "))
	}
	return nil
}

// pool is two nodes whose ranks run in an image.
func pool(t *testing.T) (Slurm, fakes.Containers) {
	t.Helper()
	inheritNothing(t)
	tools := fakes.NewContainers(t)
	tools.Push(t, "vendor/libraries:v1", fakes.Digest(1), 3)
	return Slurm{
		Starter: command.Host{}, Program: os.Args[0], Scratch: filepath.Join(t.TempDir(), "stage"),
		Request: Request{
			Cell: plan.Cell{
				Nodes: 2, Container: vocab.Pyxis, Image: "vendor/libraries:v1", Arch: "amd64", Launch: plan.Launch{Srun: []string{"--container-writable"}},
			},
			Operator: operator.Platform{Storage: operator.Storage{Images: filepath.Join(t.TempDir(), "images"), EnrootCache: t.TempDir(), Locks: t.TempDir()}},
		},
	}, tools
}

// inheritNothing removes the variables that ranks would inherit, until the test ends.
func inheritNothing(t *testing.T) {
	t.Helper()
	for name := range inherited() {
		t.Setenv(name, "") // restores it
		require.NoError(t, os.Unsetenv(name))
	}
}

// The ranks of a pool with pyxis start in the file that its nodes have verified, and only
// the directory of the allocation is mounted.
func TestAnAllocationWithAnImage(t *testing.T) {
	s, tools := pool(t)
	got, err := s.Allocate(t.Context())
	require.NoError(t, err)
	a := got.(*slurmAllocation)
	require.Equal(t, fakes.Digest(1), a.Image().Digest)
	require.Len(t, tools.Called(t, "enroot import"), 1, "of two nodes with one directory")
	require.Equal(t, []string{
		"--container-image=" + filepath.Join(s.Operator.Storage.Images, "vendor+libraries+v1+amd64.sqsh"),
		"--container-mounts=" + a.Dir() + ":" + a.Dir(), "--no-container-mount-home",
	}, a.containerArgs(nil))
	for _, line := range tools.Called(t, "srun") {
		require.NotContains(t, line, s.Operator.Storage.EnrootCache, "arguments are visible to other accounts")
	}
	info, err := os.Stat(a.Dir())
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, info.Mode())

	bystander := filepath.Join(s.Scratch, "bystander")
	require.NoError(t, os.Mkdir(bystander, 0o700))
	require.NoError(t, a.Release())
	left, err := os.ReadDir(s.Scratch)
	require.NoError(t, err)
	require.Len(t, left, 1, "the directory of the allocation is gone, and nothing else")
	require.DirExists(t, bystander)
	require.FileExists(t, filepath.Join(s.Operator.Storage.Images, "vendor+libraries+v1+amd64.sqsh"))
}

// Variables of an image win over inherited ones unless they are named. Those that only the
// image has are known, for the documents.
func TestVariablesOfAnImage(t *testing.T) {
	s, _ := pool(t)
	t.Setenv("FAKE_IMAGE_ENV", "NCCL_DEBUG=image")
	got, err := s.Allocate(t.Context())
	require.NoError(t, err)
	require.Equal(t, "image", got.Image().Env["NCCL_DEBUG"])
	require.Contains(t, got.(*slurmAllocation).containerArgs(map[string]string{"NCCL_ALGO": "Ring"}), "--container-env=NCCL_ALGO")
	require.NoError(t, got.Release())

	t.Setenv("NCCL_DEBUG", "runner")
	got, err = s.Allocate(t.Context())
	require.NoError(t, err)
	require.Equal(t, "runner", got.Image().Env["NCCL_DEBUG"])
	require.NoError(t, got.Release())
}

func TestNodesThatAreNotReady(t *testing.T) {
	need.Full(t)
	for name, c := range map[string]struct {
		env          string // NAME=VALUE
		change       func(*plan.Cell)
		reason, says string
	}{
		"a node does not see the directory": {
			"FAKE_BLIND=1", func(c *plan.Cell) { c.Container = vocab.NoContainer }, "no answer from node of node 1",
			"node 1: srun: exit status 2 (1: slurmstepd: error: execve(): <storage.stage>/cxrun: No such file or directory): does it see storage.stage, at the same path as the runner, and may it write there?",
		},
		"nothing comes back from a node": {
			"FAKE_DEAF=0", func(c *plan.Cell) { c.Container = vocab.NoContainer }, "nothing came back from node of node 0", "node 0: its report is not visible here",
		},
		"the image does not get the directory": {
			"FAKE_NO_MOUNT=1", func(*plan.Cell) {}, "no answer from image of node 0", "does the image start there, and with the directory of the cell mounted?",
		},
		"the image has an old glibc": {
			"FAKE_OLD_GLIBC=1", func(*plan.Cell) {}, "image has a glibc older than 2.34", "node 0: the image has a glibc older than 2.34, which this program needs",
		},
		"the image cannot be imported": {
			"", func(c *plan.Cell) { c.Image = "vendor/libraries:v2" }, "image could not be imported", "node 0: import image vendor/libraries:v2: enroot: exit status 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, tools := pool(t)
			c.change(&s.Cell)
			if c.env != "" {
				t.Setenv(c.env[:len(c.env)-2], c.env[len(c.env)-1:])
			}
			_, err := s.Allocate(t.Context())
			unready := &Unready{}
			require.ErrorAs(t, err, &unready)
			require.Equal(t, c.reason, unready.Reason)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), s.Scratch)
			require.NotContains(t, err.Error(), s.Operator.Storage.Images)
			require.Len(t, tools.Called(t, "scancel"), 1)
			left, err := os.ReadDir(s.Scratch)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// Nodes with directories of their own may have imported a tag before and after it moved.
func TestNodesWithDifferentImages(t *testing.T) {
	one, two := container.Squash{File: "/f", Digest: fakes.Digest(1)}, container.Squash{File: "/f", Digest: fakes.Digest(2)}
	require.NoError(t, sameImage("x:v1", []report{{Squash: one}, {Squash: one}}))
	err := sameImage("x:v1", []report{{Squash: one}, {Squash: one}, {Squash: two}})
	unready := &Unready{}
	require.ErrorAs(t, err, &unready)
	require.Equal(t, "nodes have different images", unready.Reason)
	require.ErrorContains(t, err, "node 2: image x:v1 is "+fakes.Digest(2)+" here and "+fakes.Digest(1)+" on node 0")
}

func TestAnAllocationThatIsCancelledWhileNodesPrepare(t *testing.T) {
	s, tools := pool(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.Starter = starter(func(c command.Command) (command.Process, error) {
		if c.Args[0] == "srun" {
			cancel()
		}
		return command.Host{}.Start(c)
	})
	_, err := s.Allocate(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, tools.Called(t, "scancel"), 1)
}

type starter func(command.Command) (command.Process, error)

func (s starter) Start(c command.Command) (command.Process, error) { return s(c) }

// A cell of another runner or account has a directory of its own, in which no other cell
// looks for what dead cells left.
func TestEachHostAndAccountHasADirectory(t *testing.T) {
	stage := t.TempDir()
	other := filepath.Join(stage, "collectivex-otherhost-1000")
	require.NoError(t, os.Mkdir(other, 0o700))
	left := abandon(t, other)
	s, _ := pool(t)
	s.Cell.Container = vocab.NoContainer
	var err error
	s.Scratch, err = stageOf(stage)
	require.NoError(t, err)
	a, err := s.Allocate(t.Context())
	require.NoError(t, err)
	require.DirExists(t, left)
	require.NoError(t, a.Release())
	require.DirExists(t, left)
	info, err := os.Stat(s.Scratch)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, info.Mode())
}

func TestADirectoryOfSomebodyElseIsRefused(t *testing.T) {
	base := t.TempDir()
	link := filepath.Join(base, "link")
	require.NoError(t, os.Symlink(t.TempDir(), link))
	require.ErrorContains(t, ownDirectory(link, "storage.stage"), "is not a directory of this account")
	file := filepath.Join(base, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Error(t, ownDirectory(file, "storage.stage"))
	open := filepath.Join(base, "open")
	require.NoError(t, os.Mkdir(open, 0o755))
	require.NoError(t, ownDirectory(open, "storage.stage"))
	info, err := os.Stat(open)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, info.Mode())
}
