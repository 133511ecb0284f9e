package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/affinity"
	"github.com/collectivex/collectivex/pkg/result"
)

// settled runs a benchmark, started by the command before it, and returns the head of its document, the document
// and the logs of its ranks.
func settled(t *testing.T, before ...string) (head *result.Envelope, document, logs string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	cmd := program("bench", "all_reduce", "-b", "8", "-e", "8", "-n", "1", "-c", "2", "--out", out)
	if len(before) > 0 {
		env := cmd.Env
		cmd = exec.Command(before[0], slices.Concat(before[1:], cmd.Args)...)
		cmd.Env = env
	}
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	files, err := filepath.Glob(filepath.Join(out, cellsDir, "*", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	raw := readFile(t, files[0])
	d, err := result.Decode(raw)
	require.NoError(t, err)
	written, err := filepath.Glob(filepath.Join(out, cellsDir, "*", "logs", "*", "*", "rank-*.log"))
	require.NoError(t, err)
	for _, file := range written {
		text := readFile(t, file)
		logs += string(text)
	}
	return d.Head(), string(raw), logs
}

// A library's settings file counts as the variables that it sets, where they are not set already.
func TestSettingsFiles(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("HOME", "")
	plain, _, _ := settled(t)

	for _, c := range []struct{ kind, file, variable string }{
		{"nccl", ".nccl.conf", ""}, {"nccl", "some.conf", "NCCL_CONF_FILE"}, {"rccl", ".rccl.conf", ""},
	} {
		t.Run(c.kind+c.file, func(t *testing.T) {
			if c.variable != "" || c.kind != "nccl" {
				need.Full(t)
			}
			home := filepath.Join(t.TempDir(), "casimir")
			require.NoError(t, os.Mkdir(home, 0o700))
			file := filepath.Join(home, c.file)
			require.NoError(t, os.WriteFile(file, []byte("# NCCL_PROTO=LL\nNCCL_ALGO=Ring\r\nNCCL_ALGO=Tree\nNCCL_NET=/home/casimir\nNCCL_DEBUG=WARN\nCASIMIR=1\n"), 0o600))
			t.Setenv("HOME", home)
			t.Setenv("NCCL_DEBUG", "INFO")
			if c.variable != "" {
				t.Setenv("HOME", "")
				t.Setenv(c.variable, file)
			}
			if c.kind == "rccl" {
				withoutNVIDIA(t)
			}
			head, document, logs := settled(t)
			env := head.Provenance.Environment
			require.Equal(t, "Ring", env["NCCL_ALGO"], "the first one counts")
			require.Equal(t, "withheld", env["NCCL_NET"])
			require.Equal(t, "INFO", env["NCCL_DEBUG"])
			require.NotContains(t, env, "NCCL_PROTO")
			require.NotEqual(t, plain.ComparisonKey, head.ComparisonKey)
			require.Contains(t, logs, "setting NCCL_ALGO=Ring from "+file+"\n")
			require.NotContains(t, document, "casimir")
		})
	}
}

// What the loader and the C library read counts as well, and libraries by their builds.
func TestLoaderSettings(t *testing.T) {
	need.Full(t)
	var keys []string
	see := func(name, value string, want map[string]string) {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			head, document, _ := settled(t)
			require.Equal(t, want, head.Provenance.Environment)
			require.NotContains(t, document, "casimir")
			require.NotContains(t, keys, head.ComparisonKey)
			keys = append(keys, head.ComparisonKey)
		})
	}
	see("LD_PRELOAD", "", nil)
	see("GLIBC_TUNABLES", "glibc.malloc.arena_max=1", map[string]string{"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"})

	source := filepath.Join(t.TempDir(), "empty.c")
	require.NoError(t, os.WriteFile(source, nil, 0o600))
	for name, published := range map[string]string{"libtcmalloc.so.4": "libtcmalloc.so.4", "libcasimir.so": "withheld"} {
		for _, id := range []string{"00112233445566778899aabbccddeeff00112233", "ff112233445566778899aabbccddeeff00112233"} {
			library := filepath.Join(t.TempDir(), name)
			out, err := exec.Command(fakes.Compiler(t), "-shared", "-fPIC", "-Wl,--build-id=0x"+id, "-o", library, source).CombinedOutput()
			require.NoError(t, err, "%s", out)
			see("LD_PRELOAD", library, map[string]string{"LD_PRELOAD": published + ":" + id})
		}
	}
}

// Ranks that their launcher left too few processors are never compared with others.
func TestRestrictedProcessors(t *testing.T) {
	need.Full(t)
	allowed, err := affinity.Allowed()
	require.NoError(t, err)
	need.Processors(t, 2)
	free, _, _ := settled(t)
	one, _, _ := settled(t, "taskset", "-c", affinity.List(allowed[:1]))
	require.Equal(t, map[string]string{"CX_PROCESSORS": "1"}, one.Provenance.Environment)
	require.NotEqual(t, free.ComparisonKey, one.ComparisonKey)
}

// Devices of one model in another form are never compared.
func TestVariantOfTheDevice(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("CX_FAKE_NAME", "NVIDIA H100 80GB HBM3")
	usual, _, _ := settled(t)
	require.Empty(t, usual.Provenance.Environment)
	t.Setenv("CX_FAKE_NAME", "NVIDIA H100 PCIe")
	card, _, _ := settled(t)
	require.Equal(t, "pcie", card.Provenance.Environment["CX_DEVICE"])
	require.Equal(t, usual.Identity.Case.TopologyClass, card.Identity.Case.TopologyClass)
	require.NotEqual(t, usual.ComparisonKey, card.ComparisonKey)
}
