package nccl

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/dl"
)

// ranks runs body in every rank of a group, each with a device of its own on a
// thread of its own, and returns their errors.
func ranks(t *testing.T, world int, body func(l *Library, id ID, rank int, d accel.Device) error) []error {
	t.Helper()
	l, err := Open(NCCL)
	require.NoError(t, err)
	id, err := l.NewID()
	require.NoError(t, err)
	errs := make([]error, world)
	done := make(chan struct{})
	for r := range world {
		go func() {
			runtime.LockOSThread()
			defer func() { done <- struct{}{} }()
			errs[r] = func() error {
				driver, err := cuda.Load()
				if err != nil {
					return err
				}
				d, err := driver.Open(r, t.TempDir())
				if err != nil {
					return err
				}
				return errors.Join(body(l, id, r, d), d.Close())
			}()
		}()
	}
	timeout := time.After(10 * time.Minute)
	for range world {
		select {
		case <-done:
		case <-timeout:
			require.FailNow(t, "a rank hangs")
		}
	}
	return errs
}

func TestConfigSuitsEveryRelease(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	for _, version := range []string{"21403", "21602", "21703", "21901", "22403", "22703", "22809", "22907", "23007"} {
		t.Setenv("CX_FAKE_NCCL_VERSION", version)
		for _, err := range ranks(t, 2, func(l *Library, id ID, rank int, _ accel.Device) error {
			c, err := l.Init([]ID{id}, rank, 2, Config{NVLinkCentric: true})
			if err != nil {
				return err
			}
			return c.Close()
		}) {
			require.NoError(t, err, version)
		}
	}
}

func TestInitWithoutConfig(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_NCCL_LIB", fakes.Variant{Hide: []string{"ncclCommInitRankConfig", "ncclCommFinalize"}}.Build(t))
	for _, err := range ranks(t, 2, func(l *Library, id ID, rank int, _ accel.Device) error {
		c, err := l.Init([]ID{id}, rank, 2, Config{NVLinkCentric: true})
		if err != nil {
			return err
		}
		return c.Close()
	}) {
		require.NoError(t, err)
	}
}

// Ranks that do not hold the same ids do not make a group.
func TestInitWithSeveralIDs(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_FAKE_DEVICES", "3")
	two := func(mine func(rank int, ids []ID)) []error {
		l, err := Open(NCCL)
		require.NoError(t, err)
		second, err := l.NewID()
		require.NoError(t, err)
		return ranks(t, 3, func(l *Library, id ID, rank int, _ accel.Device) error {
			ids := []ID{id, second}
			mine(rank, ids)
			c, err := l.Init(ids, rank, 3, Config{NVLinkCentric: true})
			if err != nil {
				return err
			}
			return c.Close()
		})
	}
	for _, err := range two(func(int, []ID) {}) {
		require.NoError(t, err)
	}
	for _, err := range two(func(rank int, ids []ID) {
		if rank == 2 {
			ids[1][0]++
		}
	}) {
		require.ErrorContains(t, err, "ncclCommInitRankScalable: ncclInvalidArgument")
	}
	for _, err := range two(func(_ int, ids []ID) { ids[1] = ids[0] }) {
		require.ErrorContains(t, err, "ncclCommInitRankScalable: ncclInvalidArgument")
	}
	t.Setenv("CX_NCCL_LIB", fakes.Variant{Hide: []string{"ncclCommInitRankScalable"}}.Build(t))
	for _, err := range two(func(int, []ID) {}) {
		require.ErrorIs(t, err, dl.ErrNoSymbol)
	}
}

// fourDevices are stand-ins, or with CX_TEST_CUDA=real those of this machine.
func fourDevices(t *testing.T) {
	t.Helper()
	if os.Getenv("CX_TEST_CUDA") != "real" {
		fakes.Build(t).UseWithoutKernels(t)
		t.Setenv("CX_FAKE_DEVICES", "4")
	}
}

func TestSplit(t *testing.T) {
	fourDevices(t)
	for _, err := range ranks(t, 4, func(l *Library, id ID, rank int, _ accel.Device) error {
		c, err := l.Init([]ID{id}, rank, 4, Config{})
		if err != nil {
			return err
		}
		color := rank % 2
		if rank == 3 {
			color = NoColor
		}
		part, err := c.Split(color, -rank, Config{})
		if err != nil {
			return err
		}
		got := "none"
		if part != nil {
			got = fmt.Sprint(part.Rank(), " of ", part.World())
			if err := part.Close(); err != nil {
				return err
			}
		}
		if want := []string{"1 of 2", "0 of 1", "0 of 2", "none"}[rank]; got != want {
			return fmt.Errorf("rank %d is %s, not %s", rank, got, want)
		}
		return c.Close()
	}) {
		require.NoError(t, err)
	}
}

// shrunk leaves the ranks of a group of four without rank 1, then without the last
// of those that are left, which has work in flight for all that the rest knows.
func shrunk(l *Library, id ID, rank int, exclude []int) (string, error) {
	c, err := l.Init([]ID{id}, rank, 4, Config{})
	if err != nil {
		return "", err
	}
	if rank == 1 {
		return "gone", c.Abort()
	}
	three, err := c.Shrink(exclude, false, Config{})
	if err != nil {
		return "", errors.Join(err, c.Abort())
	}
	got := fmt.Sprint(three.Rank(), " of ", three.World())
	if three.Rank() == 2 {
		return got, errors.Join(three.Abort(), c.Abort())
	}
	two, err := three.Shrink([]int{2}, true, Config{})
	if err != nil {
		return "", err
	}
	got += fmt.Sprint(", ", two.Rank(), " of ", two.World())
	return got, errors.Join(two.Close(), three.Abort(), c.Abort())
}

func TestShrink(t *testing.T) {
	fourDevices(t)
	for _, err := range ranks(t, 4, func(l *Library, id ID, rank int, _ accel.Device) error {
		got, err := shrunk(l, id, rank, []int{1})
		if want := []string{"0 of 3, 0 of 2", "gone", "1 of 3, 1 of 2", "2 of 3"}[rank]; err == nil && got != want {
			return fmt.Errorf("rank %d is %s, not %s", rank, got, want)
		}
		return err
	}) {
		require.NoError(t, err)
	}
}

func TestShrinkRefuses(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_FAKE_DEVICES", "4")
	for _, c := range []struct {
		exclude []int
		want    string
	}{
		{nil, "ncclCommShrink on rank %d: no rank to exclude"},
		{[]int{4}, "ncclCommShrink: ncclInvalidArgument on rank %d"},
		{[]int{1, 1}, "ncclCommShrink: ncclInvalidArgument on rank %d"},
		{[]int{0, 1, 2, 3}, "ncclCommShrink: ncclInvalidArgument on rank %d"},
	} {
		errs := ranks(t, 4, func(l *Library, id ID, rank int, _ accel.Device) error {
			_, err := shrunk(l, id, rank, c.exclude)
			return err
		})
		for _, rank := range []int{0, 2, 3} {
			require.EqualError(t, errs[rank], fmt.Sprintf(c.want, rank))
		}
	}
	t.Setenv("CX_NCCL_LIB", fakes.Variant{Hide: []string{"ncclCommShrink"}}.Build(t))
	errs := ranks(t, 4, func(l *Library, id ID, rank int, _ accel.Device) error {
		_, err := shrunk(l, id, rank, []int{1})
		return err
	})
	require.ErrorIs(t, errs[0], dl.ErrNoSymbol)
}

func TestErrorsNameCallResultAndRank(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	errs := ranks(t, 1, func(l *Library, id ID, _ int, _ accel.Device) error {
		_, err := l.Init([]ID{id}, 3, 2, Config{})
		return err
	})
	require.EqualError(t, errs[0], "ncclCommInitRankConfig: ncclInvalidArgument on rank 3")
	var e *Error
	require.ErrorAs(t, errs[0], &e)
	require.Equal(t, "rank 3 of 2", e.Detail)
	require.Equal(t, "ncclResult 77", Result(77).String())
}

func TestUseAfterTheEnd(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	errs := ranks(t, 1, func(l *Library, id ID, _ int, _ accel.Device) error {
		c, err := l.Init([]ID{id}, 0, 1, Config{})
		if err != nil {
			return err
		}
		if err := errors.Join(c.AsyncError(), c.Close(), c.Close(), c.Abort()); err != nil {
			return err
		}
		return c.AsyncError()
	})
	require.ErrorIs(t, errs[0], ErrEnded)
}

// A rank that closes its communicator does not wait for one that aborted.
func TestCloseBesideAnAbort(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	for r, err := range ranks(t, 2, func(l *Library, id ID, rank int, _ accel.Device) error {
		c, err := l.Init([]ID{id}, rank, 2, Config{})
		if err != nil {
			return err
		}
		if rank == 0 {
			return c.Close()
		}
		return c.Abort()
	}) {
		require.NoError(t, err, "rank %d", r)
	}
}

func TestRegister(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	const n = 1 << 20
	register := func(window bool) []error {
		return ranks(t, 2, func(l *Library, id ID, rank int, _ accel.Device) error {
			c, err := l.Init([]ID{id}, rank, 2, Config{})
			if err != nil {
				return err
			}
			p, err := l.Alloc(n)
			if err != nil {
				return err
			}
			r, err := c.Register(p, n, window)
			if err == nil {
				err = r.Close()
			}
			return errors.Join(err, l.Free(p), c.Close())
		})
	}
	for _, window := range []bool{false, true} {
		for _, err := range register(window) {
			require.NoError(t, err)
		}
	}
	t.Setenv("CX_FAKE_NCCL_NO_HANDLE", "1")
	for _, window := range []bool{false, true} {
		for _, err := range register(window) {
			require.ErrorIs(t, err, ErrNoHandle)
		}
	}
	t.Setenv("CX_FAKE_NCCL_NO_HANDLE", "")
	t.Setenv("CX_NCCL_LIB", fakes.Variant{Hide: []string{"ncclCommWindowRegister"}}.Build(t))
	for _, err := range register(true) {
		require.ErrorIs(t, err, dl.ErrNoSymbol)
	}
	t.Setenv("CX_FAKE_NCCL_MEMORY", "4096")
	for _, err := range register(false) {
		require.ErrorContains(t, err, "ncclMemAlloc: ncclUnhandledCudaError")
	}
}

func TestPreMulSum(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	errs := ranks(t, 1, func(l *Library, id ID, _ int, _ accel.Device) error {
		c, err := l.Init([]ID{id}, 0, 1, Config{})
		if err != nil {
			return err
		}
		for range 200 { // more than can be made at once
			op, err := c.NewPreMulSum(7, 0x40000000)
			if err != nil {
				return err
			}
			if op < 5 {
				return fmt.Errorf("reduction %d is one of the library's own", op)
			}
			if err := c.FreePreMulSum(op); err != nil {
				return err
			}
		}
		return c.Close()
	})
	require.NoError(t, errs[0])
}
