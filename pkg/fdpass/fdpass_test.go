package fdpass

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// addressVariable makes the test binary a process that takes the file there and prints it.
const addressVariable = "CX_TEST_FDPASS"

func TestMain(m *testing.M) {
	if address, ok := os.LookupEnv(addressVariable); ok {
		f, err := Take(context.Background(), address)
		if err == nil {
			_, err = io.Copy(os.Stdout, f)
		}
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// offer offers a file with a text that has no name any more.
func offer(t *testing.T, text string) *Offer {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(f.Name()))
	_, err = f.WriteString(text)
	require.NoError(t, err)
	_, err = f.Seek(0, io.SeekStart)
	require.NoError(t, err)
	o, err := NewOffer(f)
	require.NoError(t, err)
	return o
}

// Another process reads what only a descriptor of this one reaches, and finds nobody once the
// offer is withdrawn.
func TestAnotherProcessTakesTheFile(t *testing.T) {
	o := offer(t, "no path leads here")
	taking := func() (string, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), addressVariable+"="+o.Address())
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	text, err := taking()
	require.NoError(t, err, text)
	require.Equal(t, "no path leads here", text)
	require.NoError(t, o.Close())
	text, err = taking()
	require.Error(t, err)
	require.Contains(t, text, "take a file from another process: dial unix "+o.Address())
	require.Contains(t, text, "connection refused")
}

// What was taken outlives the offer, and is closed when the process starts another program.
func TestTakenFileIsOwn(t *testing.T) {
	o := offer(t, "kept")
	f, err := Take(t.Context(), o.Address())
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, o.Close())
	text, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "kept", string(text))
	flags, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd()))
	require.NoError(t, err)
	require.Regexp(t, `flags:\s+02\d{6}`, string(flags), "O_CLOEXEC")
}

// A process without descriptors cannot accept a connection. It says so when the offer is closed, and
// who wants the file does not wait.
func TestOfferWithoutDescriptors(t *testing.T) {
	o := offer(t, "nobody takes it")
	taker, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(taker)
	require.NoError(t, unix.SetsockoptTimeval(taker, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}))
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	// An accept that begins now fails before anybody connects, and one that waits fails after it.
	if err := unix.Connect(taker, &unix.SockaddrUnix{Name: o.Address()}); !errors.Is(err, unix.ECONNREFUSED) {
		require.NoError(t, err)
		n, err := unix.Read(taker, make([]byte, 1))
		require.NotErrorIs(t, err, unix.EAGAIN, "it still waits")
		require.LessOrEqual(t, n, 0)
	}
	err = o.Close()
	require.ErrorIs(t, err, unix.EMFILE)
	require.Regexp(t, `^offer a file to other processes: accept unix @cx-\w+: .*too many open files: raise the limit of open files \(ulimit -n\) or free memory$`, err.Error())
}

// A process that never answers is waited for as long as the context lasts; one that gives nothing
// is told.
func TestPeersThatGiveNothing(t *testing.T) {
	silent, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: "@" + t.Name() + rand.Text()})
	require.NoError(t, err)
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := Take(ctx, silent.Addr().String())
		failed <- err
	}()
	conn, err := silent.Accept() // it waits for an answer
	require.NoError(t, err)
	cancel()
	require.EqualError(t, <-failed, "take a file from another process: context canceled")
	require.NoError(t, conn.Close())

	go func() {
		conn, err := silent.Accept()
		if err == nil {
			conn.Close()
		}
	}()
	_, err = Take(t.Context(), silent.Addr().String())
	require.EqualError(t, err, "take a file from another process: it closed the connection without sending the file")
}
