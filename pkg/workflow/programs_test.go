package workflow_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/workflow"
)

// runOf returns the script of a step of the emitted workflow.
func runOf(t *testing.T, job, name string) string {
	t.Helper()
	var w struct {
		Jobs map[string]struct {
			Steps []struct{ Name, Run string }
		}
	}
	require.NoError(t, yaml.Unmarshal(emit(t, workflow.Options{}), &w))
	for _, s := range w.Jobs[job].Steps {
		if s.Name == name {
			return s.Run
		}
	}
	require.Fail(t, "no such step", "%s: %s", job, name)
	return ""
}

// build runs the workflow's own build script for both architectures in a clone.
func build(t *testing.T, s *stage, script string) (dir, output string, err error) {
	t.Helper()
	dir = t.TempDir()
	clone := exec.Command("git", "clone", "-q", filepath.Join(s.repositories, repository), dir)
	out, err := clone.CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CX_ARCHS=amd64 arm64")
	text, err := cmd.CombinedOutput()
	return dir, string(text), err
}

// TestPrograms builds cxrun for both architectures as setup does, starts both
// (arm64 under qemu) and holds them to the promised C library.
func TestPrograms(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	need.Tool(t, "aarch64-linux-gnu-gcc")
	commit := s.commit(t, repository, nil)
	script := runOf(t, "setup", "Build cxrun")
	dir, out, err := build(t, s, script)
	require.NoError(t, err, out)

	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(arch, func(t *testing.T) {
			unpacked := t.TempDir()
			require.NoError(t, exec.Command("tar", "-C", unpacked, "-xf", filepath.Join(dir, "bin", "cxrun-"+arch+".tar")).Run())
			program := filepath.Join(unpacked, "cxrun")

			f, err := elf.Open(program)
			require.NoError(t, err)
			defer f.Close()
			require.Equal(t, machine, f.Machine)
			needs, err := f.DynamicVersionNeeds()
			require.NoError(t, err)
			versions := 0
			for _, n := range needs {
				for _, symbol := range n.Needs {
					if v, ok := strings.CutPrefix(symbol.Dep, "GLIBC_"); ok {
						versions++
						require.LessOrEqual(t, number(t, v), number(t, workflow.GlibcFloor), "%s of %s", symbol.Dep, n.Name)
					}
				}
			}
			require.NotZero(t, versions)

			start := []string{program, "--version"}
			if arch == "arm64" {
				start = append([]string{need.Tool(t, "qemu-aarch64"), "-L", "/usr/aarch64-linux-gnu"}, start...)
			}
			out, err := exec.Command(start[0], start[1:]...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), commit[:12]+" (source ")
		})
	}

	t.Run("too new a C library is refused", func(t *testing.T) {
		_, out, err := build(t, s, strings.ReplaceAll(script, "GLIBC_"+workflow.GlibcFloor, "GLIBC_2.17"))
		require.Error(t, err)
		require.Contains(t, out, "newer than the promised GLIBC_2.17")
	})
}

// number makes a version such as 2.34 or 2.2.5 comparable.
func number(t *testing.T, version string) int {
	t.Helper()
	total := 0
	for _, part := range strings.Split(version+".0.0", ".")[:3] {
		n, err := strconv.Atoi(part)
		require.NoError(t, err)
		total = total*1000 + n
	}
	return total
}
