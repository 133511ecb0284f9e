package run

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/preflight"
)

func TestProbe(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_FAKE_DEVICES", "3")
	d, err := probe(t.Context(), command.Host{}, cli.Definitions{})
	require.NoError(t, err)
	require.Len(t, d.Present, 6, "both vendors' stand-ins")
	require.Len(t, d.GPUs, 2)
}

// A library that kills the process that opens it costs the GPUs, not the sweep. Nobody
// waits for what it started, which holds the output of the process open.
func TestMachineHereSurvivesALibraryThatDies(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "dies.c")
	require.NoError(t, os.WriteFile(source, []byte("#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void die(void) { if (system(\"sleep 1000 &\") == 0) fputs(\"driver is broken\\nand more\\n\", stderr); abort(); }\n"), 0o600))
	library := filepath.Join(dir, "libcuda.so.1")
	out, err := exec.Command(fakes.Compiler(t), "-shared", "-fPIC", "-o", library, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Setenv("CX_CUDA_LIB", library)

	d, err := machineHere(t.Context(), cli.Definitions{})
	require.NoError(t, err)
	require.Len(t, d.Unusable, 1)
	require.Equal(t, preflight.Survey{Unusable: d.Unusable}, d)
	require.Equal(t, "the GPUs of this machine cannot be examined: cxrun survey: exit status 2 (driver is broken); 'cxrun doctor' examines them again and reports more", d.Unusable[0])
}

// An examination that Ctrl-C ends says nothing about the machine.
func TestAnInterruptedExamination(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, line := range []string{"bench all_reduce", "bench overlap --backend nccl", "sweep --out " + filepath.Join(t.TempDir(), "run"), "doctor"} {
		var out, errs bytes.Buffer
		s := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) string { return "" }}
		require.Equal(t, cli.ExitFailed, Main(ctx, s, strings.Fields(line)), line)
		require.Equal(t, "cxrun: interrupted\n", errs.String(), line)
		require.Empty(t, out.String(), line)
	}
}

// mute starts processes that end when they are killed, and before that do nothing.
type mute struct{ killed chan struct{} }

func (m mute) Start(command.Command) (command.Process, error) { return m, nil }
func (m mute) Signal(syscall.Signal)                          {}
func (m mute) Kill()                                          { close(m.killed) }
func (m mute) Wait() command.Status                           { <-m.killed; return command.Status{Signal: syscall.SIGKILL} }

func TestAProbeThatHangsIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := probe(t.Context(), mute{make(chan struct{})}, cli.Definitions{})
		require.EqualError(t, err, "cxrun survey: no answer within 2m0s")
	})
}
