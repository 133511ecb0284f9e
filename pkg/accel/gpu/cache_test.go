package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/hip"
)

const empty = `extern "C" __global__ void k() {}` + "\n"

// counted is a compiler that writes a line to a file each time it compiles.
func counted(t *testing.T) (c *gpu.Compiler, compiled func() int) {
	t.Helper()
	fakes.Build(t).Use(t)
	dir := t.TempDir()
	log, script := filepath.Join(dir, "log"), filepath.Join(dir, "cxx")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho x >> "+log+"\nexec g++ \"$@\"\n"), 0o755))
	t.Setenv("CX_FAKE_CXX", script)
	c, err := cuda.OpenCompiler()
	require.NoError(t, err)
	return c, func() int {
		text, _ := os.ReadFile(log)
		return strings.Count(string(text), "x")
	}
}

func TestCacheFindsWhatItKept(t *testing.T) {
	c, compiled := counted(t)
	dir := filepath.Join(t.TempDir(), "made", "when needed")
	first, err := c.Cached(t.Context(), dir, "k.cu", empty, "sm_90")
	require.NoError(t, err)
	again, err := c.Cached(t.Context(), dir, "k.cu", empty, "sm_90")
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, 1, compiled())

	_, err = c.Cached(t.Context(), dir, "k.cu", empty, "sm_80")
	require.NoError(t, err)
	require.Equal(t, 2, compiled(), "another architecture")
	_, err = c.Cached(t.Context(), dir, "k.cu", empty+"// changed\n", "sm_90")
	require.NoError(t, err)
	require.Equal(t, 3, compiled(), "another source")

	h, err := hip.OpenCompiler()
	require.NoError(t, err)
	_, err = h.Cached(t.Context(), dir, "k.cu", empty, "gfx942:sramecc+:xnack-")
	require.NoError(t, err)
	require.Equal(t, 4, compiled(), "another compiler")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 4, "nothing but images is left")
}

func TestCacheMistrustsDamagedFiles(t *testing.T) {
	c, compiled := counted(t)
	for i, damage := range []func(image []byte) []byte{
		func(image []byte) []byte { return image[:len(image)/2] },
		func(image []byte) []byte { return nil },
		func(image []byte) []byte { image[100] ^= 1; return image },
	} {
		dir := t.TempDir()
		want, err := c.Cached(t.Context(), dir, "k.cu", empty, "sm_90")
		require.NoError(t, err)
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, files, 1)
		path := filepath.Join(dir, files[0].Name())
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, damage(kept), 0o600))
		got, err := c.Cached(t.Context(), dir, "k.cu", empty, "sm_90")
		require.NoError(t, err)
		require.Len(t, got, len(want))
		require.Equal(t, 2*(i+1), compiled(), "compiled anew")
		_, err = c.Cached(t.Context(), dir, "k.cu", empty, "sm_90")
		require.NoError(t, err)
		require.Equal(t, 2*(i+1), compiled(), "and kept")
	}
}

// Ranks that start together compile a kernel once.
func TestCacheOfManyRanks(t *testing.T) {
	c, compiled := counted(t)
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 3 {
				image, err := c.Cached(t.Context(), dir, "k.cu", empty, "sm_90")
				if err != nil || len(image) == 0 {
					t.Errorf("%d bytes, %v", len(image), err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, compiled())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing but the image is left")
}

// A rank whose compiler fails leaves the work to the next one, which does not wait for it.
func TestCacheAfterAFailure(t *testing.T) {
	c, compiled := counted(t)
	dir := t.TempDir()
	_, err := c.Cached(t.Context(), dir, "k.cu", "not a kernel", "sm_90")
	require.ErrorContains(t, err, "NVRTC_ERROR_COMPILATION")
	_, err = c.Cached(t.Context(), dir, "k.cu", "not a kernel", "sm_90")
	require.ErrorContains(t, err, "NVRTC_ERROR_COMPILATION")
	require.Equal(t, 2, compiled())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files)
}

// compileVariable makes the test binary a rank that compiles into the directory that it names.
const compileVariable = "CX_TEST_COMPILE"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(compileVariable); ok {
		c, err := cuda.OpenCompiler()
		if err == nil {
			_, err = c.Cached(context.Background(), dir, "k.cu", empty, "sm_90")
		}
		fmt.Println(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hanging starts a rank whose compiler never ends, and returns when that compiles.
func hanging(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	rank := exec.CommandContext(t.Context(), os.Args[0])
	rank.Env = append(os.Environ(), compileVariable+"="+dir)
	dir = t.TempDir()
	begun, end, script := filepath.Join(dir, "begun"), filepath.Join(dir, "end"), filepath.Join(dir, "cxx")
	require.NoError(t, errors.Join(unix.Mkfifo(begun, 0o600), unix.Mkfifo(end, 0o600)))
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho >"+begun+"\nread x <"+end+"\n"), 0o755))
	holds, err := os.OpenFile(end, os.O_RDWR, 0) // which ends the script when it is closed
	require.NoError(t, err)
	t.Cleanup(func() { holds.Close() })
	rank.Env = append(rank.Env, "CX_FAKE_CXX="+script)
	require.NoError(t, rank.Start())
	_, err = os.ReadFile(begun)
	require.NoError(t, err)
	return rank
}

// A rank waits for another one that compiles, as long as its context allows.
func TestCacheWaitsForTheCompilerOfAnother(t *testing.T) {
	c, compiled := counted(t)
	dir := t.TempDir()
	other := hanging(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Cached(ctx, dir, "k.cu", empty, "sm_90")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, compiled())

	// Whoever is killed holds nobody up, although its compiler lives on.
	require.NoError(t, other.Process.Kill())
	require.Error(t, other.Wait())
	_, err = c.Cached(t.Context(), dir, "k.cu", empty, "sm_90")
	require.NoError(t, err)
	require.Equal(t, 1, compiled())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
}

// No place to keep an image is no reason not to have one.
func TestCacheThatCannotKeep(t *testing.T) {
	c, compiled := counted(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	image, err := c.Cached(t.Context(), filepath.Join(file, "no directory"), "k.cu", empty, "sm_90")
	require.NoError(t, err)
	require.NotEmpty(t, image)
	require.Equal(t, 1, compiled())
}

func TestCacheIsTheUsersByDefault(t *testing.T) {
	c, _ := counted(t)
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	_, err := c.Cached(t.Context(), "", "k.cu", empty, "sm_90")
	require.NoError(t, err)
	kept, err := filepath.Glob(filepath.Join(home, "collectivex", "kernels", "sm_90-*.image"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
}

func TestCompileStopsWithItsContext(t *testing.T) {
	c, compiled := counted(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Cached(ctx, t.TempDir(), "k.cu", empty, "sm_90")
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, compiled())
}

func TestCompilerErrors(t *testing.T) {
	c, _ := counted(t)
	for _, tc := range []struct{ name, source, arch, want string }{
		{"unknown architecture", empty, "sm_1", "compile k.cu for sm_1 with NVRTC 13.0: nvrtcCompileProgram: NVRTC_ERROR_INVALID_OPTION (5): error: invalid value"},
		{"undeclared name", `extern "C" __global__ void k() { nobody(); }`, "sm_90", "k.cu:1:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := c.Compile("k.cu", tc.source, tc.arch)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	require.Equal(t, "NVRTC 13.0", c.Version())
	require.Equal(t, "libnvrtc.so.13", c.Library().SOName())
}
