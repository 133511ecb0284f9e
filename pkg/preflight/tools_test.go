package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/command"
)

// toolsIs what Tools finds where PATH has these programs, each a shell script.
func toolsIs(t *testing.T, scripts map[string]string) string {
	t.Helper()
	bin := t.TempDir()
	for name, script := range scripts {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	t.Setenv("PATH", bin)
	var lines []string
	for _, f := range Tools(t.Context(), command.Host{}) {
		lines = append(lines, fmt.Sprintf("%s %s: %s", f.Tool, f.State, f.Text))
	}
	return strings.Join(lines, "\n")
}

func TestTools(t *testing.T) {
	require.Equal(t, `slurm missing: not on PATH: salloc, srun, scancel, squeue
pyxis missing: needs slurm
enroot missing: not on PATH: enroot, unsquashfs
docker missing: not on PATH: docker
podman missing: not on PATH: podman`, toolsIs(t, nil))

	slurm := map[string]string{
		"salloc": "", "scancel": "", "squeue": "", "scontrol": "",
		"srun":   `if [ "$1" = --help ]; then echo "  --container-image=IMAGE"; else echo slurm 24.05.1; fi`,
		"enroot": "echo 3.5.0", "unsquashfs": "",
		"docker": "echo 27.1.0; echo more", "podman": "echo 'no subuid ranges' >&2; exit 125",
	}
	require.Equal(t, `slurm ready: 24.05.1
pyxis ready: images are imported on the compute nodes, which need enroot and unsquashfs
enroot ready: 3.5.0
docker ready: 27.1.0
podman missing: podman version --format={{.Client.Version}}: exit status 125 (no subuid ranges)`, toolsIs(t, slurm))

	slurm["srun"] = "echo slurm 24.05.1"
	require.Contains(t, toolsIs(t, slurm), "pyxis missing: srun has no --container-image: load pyxis in plugstack.conf")
	slurm["scontrol"] = "echo 'slurm_load: Unable to contact slurm controller' >&2; exit 1"
	require.Contains(t, toolsIs(t, slurm), "slurm missing: 24.05.1, but its controller does not answer: exit status 1 (slurm_load: Unable to contact slurm controller)\npyxis missing: needs slurm")
}
