package fakes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// builderVariable makes the test binary a builder of the path that it has, which says that it
// builds and then waits until it is killed.
const builderVariable = "CX_TEST_BUILDER"

func TestMain(m *testing.M) {
	if path, ok := os.LookupEnv(builderVariable); ok {
		fmt.Println(Shared(path, func(string) error {
			fmt.Println("building")
			select {}
		}))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func write(text string) func(string) error {
	return func(create string) error { return os.WriteFile(create, []byte(text), 0o600) }
}

// Of many that need a file, one builds it.
// The stand-ins compile. .ci/run builds them by this test, so that no other test's time has it.
func TestBuild(t *testing.T) { require.FileExists(t, Build(t).CUDA) }

func TestSharedIsBuiltOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var built atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			err := Shared(path, func(create string) error {
				built.Add(1)
				return write("built")(create)
			})
			text, _ := os.ReadFile(path)
			if err != nil || string(text) != "built" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, built.Load())
}

// A builder that fails leaves nothing, and the next one builds.
func TestSharedAfterAFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	broken := errors.New("broken")
	require.ErrorIs(t, Shared(path, func(create string) error { return errors.Join(write("half")(create), broken) }), broken)
	require.NoFileExists(t, path)
	require.NoError(t, Shared(path, write("built")))
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 2, "the file and its lock")
}

// A builder that is killed holds nobody up, who waits for it already.
func TestSharedAfterAKilledBuilder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	builder := exec.CommandContext(t.Context(), os.Args[0])
	builder.Env = append(os.Environ(), builderVariable+"="+path)
	out, err := builder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, builder.Start())
	_, err = out.Read(make([]byte, 1)) // it has the lock
	require.NoError(t, err)
	next := make(chan error, 1)
	go func() { next <- Shared(path, write("built")) }()
	require.NoError(t, builder.Process.Kill())
	require.Error(t, builder.Wait())
	require.NoError(t, <-next)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "built", string(text))
}
