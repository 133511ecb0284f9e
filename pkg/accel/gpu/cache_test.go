package gpu_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

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

func TestCacheOfManyRanks(t *testing.T) {
	c, _ := counted(t)
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
