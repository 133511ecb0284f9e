package affinity_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/affinity"
)

// question is what a child is asked to do, seen is what it was then.
type question struct{ Online, CPUs []int }

type seen struct {
	Held    []int
	Threads map[int]int // thread → how many processors it may use
	Allowed []int       // of the calling thread
}

const childVariable = "CX_AFFINITY_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(child(text))
	}
	os.Exit(m.Run())
}

func child(text string) int {
	var q question
	if err := json.Unmarshal([]byte(text), &q); err != nil {
		return 2
	}
	threads(4) // there before
	var s seen
	var err error
	if s.Held, err = affinity.Narrow(q.Online, q.CPUs); err != nil {
		return 3
	}
	threads(4) // and after
	if s.Allowed, err = affinity.Allowed(); err != nil {
		return 4
	}
	s.Threads = map[int]int{}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 5
	}
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		var set unix.CPUSet
		if unix.SchedGetaffinity(tid, &set) == nil {
			s.Threads[tid] = set.Count()
		}
	}
	if json.NewEncoder(os.Stdout).Encode(s) != nil {
		return 6
	}
	return 0
}

// threads starts n OS threads that stay.
func threads(n int) {
	started := make(chan bool)
	for range n {
		go func() {
			runtime.LockOSThread()
			started <- true
			select {}
		}()
		<-started
	}
}

// ask runs a child that is allowed what the calling OS thread is.
func ask(t *testing.T, q question) seen {
	t.Helper()
	text, err := json.Marshal(q)
	require.NoError(t, err)
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	var out bytes.Buffer
	cmd.Stdout = &out
	require.NoError(t, cmd.Run())
	var s seen
	require.NoError(t, json.Unmarshal(out.Bytes(), &s))
	require.GreaterOrEqual(t, len(s.Threads), 8)
	return s
}

func TestNarrowHoldsEveryThread(t *testing.T) {
	allowed, err := affinity.Allowed()
	require.NoError(t, err)
	need.Processors(t, 2)
	last := allowed[len(allowed)-1]
	s := ask(t, question{Online: allowed, CPUs: []int{last, 1 << 9}})
	require.Equal(t, []int{last}, s.Held)
	require.Equal(t, s.Held, s.Allowed)
	for tid, n := range s.Threads {
		require.Equal(t, 1, n, "thread %d may use others", tid)
	}
}

func TestNarrowLeavesAlone(t *testing.T) {
	allowed, err := affinity.Allowed()
	require.NoError(t, err)
	for _, tt := range []struct {
		name string
		ask  question
		held []int
	}{
		{"nothing is known of the device", question{Online: allowed}, nil},
		{"nothing is known of the machine", question{CPUs: allowed[:1]}, nil},
		{"every processor is the device's", question{Online: allowed, CPUs: allowed}, nil},
		{"the device's processors are not ours", question{Online: allowed, CPUs: []int{1 << 9}}, nil},
		{"somebody narrowed us", question{Online: append([]int{1 << 9}, allowed...), CPUs: allowed[:1]}, allowed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := ask(t, tt.ask)
			require.Equal(t, tt.held, s.Held)
			require.Equal(t, allowed, s.Allowed)
			for _, n := range s.Threads {
				require.Equal(t, len(allowed), n)
			}
		})
	}
}

// A launcher that pins: the child inherits one processor of those that are online.
func TestNarrowLeavesALaunchersPinAlone(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	allowed, err := affinity.Allowed()
	require.NoError(t, err)
	var one unix.CPUSet
	one.Set(allowed[0])
	require.NoError(t, unix.SchedSetaffinity(0, &one))
	s := ask(t, question{Online: append(allowed, 1<<9), CPUs: allowed})
	require.Equal(t, allowed[:1], s.Held)
	require.Equal(t, allowed[:1], s.Allowed)
}

func TestList(t *testing.T) {
	for want, cpus := range map[string][]int{
		"": nil, "3": {3}, "0-1": {0, 1}, "0-3,8,10-11": {0, 1, 2, 3, 8, 10, 11},
	} {
		require.Equal(t, want, affinity.List(cpus))
	}
}
