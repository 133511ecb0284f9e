// Package wheels fetches, for tests, vendors' libraries from the Python wheels
// in which they are published, and Python packages that read our files.
package wheels

import (
	"archive/zip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
)

// Wheel is one release of a package.
type Wheel struct {
	Name, Version string
	// SHA256 has the digest of the wheel for each processor on which tests run.
	SHA256 []string
	// Python is the release for which the wheel is, such as 3.12, if there is one for each;
	// its libraries are the same.
	Python string
	// Trees are the directories whose files are taken, under their paths in the wheel; without
	// them, only the shared libraries are taken.
	Trees []string
}

// The wheels that tests use.
var (
	NVRTC = Wheel{Name: "nvidia-cuda-nvrtc", Version: "13.0.88", SHA256: []string{
		"ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575", // x86_64
		"d27f20a0ca67a4bb34268a5e951033496c5b74870b868bacd046b1b8e0c3267b", // aarch64
	}}
	// NCCL with its headers.
	NCCL = Wheel{
		Name: "nvidia-nccl-cu13", Version: "2.28.9", SHA256: []string{
			"e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42", // x86_64
			"01c873ba1626b54caa12272ed228dc5b2781545e0ae8ba3f432a8ef1c6d78643", // aarch64
		},
		Trees: []string{"nvidia/nccl/"},
	}
	// NIXL with UCX, which has libraries of its own.
	NIXL = Wheel{
		Name: "nixl-cu13", Version: "1.5.1", Python: "3.12", SHA256: []string{
			"ce48b601bad4c4503a5d9d418e6f4b1289a3a68e407af99f0f7e377f8371f49b", // x86_64
			"dbccd0eacc919e8beeba036eb80a4eaa67b060c4d2c12d346797739397205369", // aarch64
		},
		Trees: []string{".nixl_cu13.mesonpy.libs/", "nixl_cu13.libs/", "nixl_cu13-1.5.1.dist-info/METADATA"},
	}
)

// Libraries returns a directory with the shared libraries of the wheel. It fetches them once into
// .tools and checks the hashes. Without CX_E2E=1, it skips the test.
func (w Wheel) Libraries(t testing.TB) string {
	t.Helper()
	return once(t, w.Name+"-"+w.Version, func(dir string) { w.unpack(t, w.download(t), dir) })
}

//go:embed dataframes.txt
var dataframes []byte

// Dataframes returns a directory for PYTHONPATH with DuckDB and pandas, which it fetches
// as Libraries does.
func Dataframes(t testing.TB) string {
	t.Helper()
	return packages(t, "dataframes", dataframes)
}

// MooncakeVersion is the version in mooncake.txt.
const MooncakeVersion = "0.3.13.post1"

//go:embed mooncake.txt
var mooncake []byte

// Mooncake returns a directory for PYTHONPATH with Mooncake's transfer engine, which it fetches
// as Libraries does.
func Mooncake(t testing.TB) string {
	t.Helper()
	return packages(t, "mooncake", mooncake)
}

func packages(t testing.TB, name string, requirements []byte) string {
	t.Helper()
	need.EndToEnd(t, "to fetch "+name)
	version, err := exec.Command(need.Tool(t, "python3"), "-c", "import sys; print('py%d%d' % sys.version_info[:2])").Output()
	require.NoError(t, err)
	sum := sha256.Sum256(requirements)
	return once(t, name+"-"+hex.EncodeToString(sum[:4])+"-"+strings.TrimSpace(string(version)), func(dir string) {
		pip(t, requirements, "install", "--no-compile", "--target", dir)
	})
}

// once returns the directory of that name in .tools. If it is missing, fill fills it first.
func once(t testing.TB, name string, fill func(dir string)) string {
	t.Helper()
	need.EndToEnd(t, "to fetch "+name)
	dir := filepath.Join(need.Source(".tools"), name)
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o755))
	require.NoError(t, fakes.Shared(dir, func(create string) error {
		fill(create)
		return nil
	}))
	return dir
}

// download returns the wheel's file, which goes with the test.
func (w Wheel) download(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	command := []string{"download", "--dest", dir}
	if w.Python != "" {
		arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
		command = append(command, "--implementation=cp", "--python-version="+w.Python, "--platform=manylinux_2_28_"+arch)
	}
	pip(t, fmt.Appendf(nil, "%s==%s --hash=sha256:%s\n", w.Name, w.Version, strings.Join(w.SHA256, " --hash=sha256:")), command...)
	files, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return files[0]
}

// pip runs a command of pip on exactly the wheels of requirements.
func pip(t testing.TB, requirements []byte, command ...string) {
	t.Helper()
	python := need.Tool(t, "python3")
	file := filepath.Join(t.TempDir(), "requirements.txt")
	require.NoError(t, os.WriteFile(file, requirements, 0o600))
	args := append(append([]string{"-m", "pip"}, command...), "--quiet", "--disable-pip-version-check", "--no-cache-dir",
		"--retries=10", "--timeout=60", "--no-deps", "--only-binary=:all:", "--require-hashes", "-r", file)
	var out []byte
	var err error
	for try := range 5 { // pip does not repeat a download that breaks off
		time.Sleep(time.Duration(try) * 10 * time.Second)
		if out, err = exec.Command(python, args...).CombinedOutput(); err == nil {
			return
		}
	}
	require.NoError(t, err, "%s", out)
}

func (w Wheel) unpack(t testing.TB, wheel, dir string) {
	t.Helper()
	z, err := zip.OpenReader(wheel)
	require.NoError(t, err)
	defer z.Close()
	for _, entry := range z.File {
		name := filepath.Base(entry.Name)
		if w.Trees != nil {
			name = entry.Name
		}
		if !w.takes(entry.Name) {
			continue
		}
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		in, err := entry.Open()
		require.NoError(t, err)
		out, err := os.Create(file)
		require.NoError(t, err)
		_, err = out.ReadFrom(in)
		require.NoError(t, err)
		require.NoError(t, out.Close())
		require.NoError(t, in.Close())
	}
}

func (w Wheel) takes(name string) bool {
	if w.Trees == nil {
		return strings.Contains(name, ".so.")
	}
	return filepath.IsLocal(name) && !strings.HasSuffix(name, "/") &&
		slices.ContainsFunc(w.Trees, func(tree string) bool { return strings.HasPrefix(name, tree) })
}
