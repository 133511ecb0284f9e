package run

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
)

func TestProbe(t *testing.T) {
	fakes.Build(t).Use(t)
	t.Setenv("CX_FAKE_DEVICES", "3")
	d, err := probe(t.Context(), cli.Definitions{})
	require.NoError(t, err)
	require.Len(t, d.GPUs, 6, "both vendors' stand-ins")
	require.Equal(t, runtime.GOARCH, d.Plan().CPU)
}

// A library that kills the process that opens it costs the GPUs, not the sweep.
func TestMachineHereSurvivesALibraryThatDies(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "dies.c")
	require.NoError(t, os.WriteFile(source, []byte("#include <stdlib.h>\n__attribute__((constructor)) static void die(void) { abort(); }\n"), 0o600))
	library := filepath.Join(dir, "libcuda.so.1")
	out, err := exec.Command(fakes.Compiler(t), "-shared", "-fPIC", "-o", library, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Setenv("CX_CUDA_LIB", library)

	var errs bytes.Buffer
	d := machineHere(t.Context(), cli.Streams{Err: &errs}, cli.Definitions{})
	require.Equal(t, plan.Machine{CPU: runtime.GOARCH}, d.Plan())
	require.Equal(t, "cxrun: this machine's GPUs are left out: cxrun env: exit status 2; see 'cxrun doctor'\n", errs.String())
}
