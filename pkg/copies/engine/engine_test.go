package engine

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/copytest"
	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/copies/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/table"
)

// Drivers open memory of other processes alone, so that the ranks here are processes.
func TestMain(m *testing.M) {
	eptest.Main(func(plan.Case) (rank.Opener, error) { return Open, nil })
	os.Exit(m.Run())
}

// withDrivers runs body with the stand-ins of each vendor's driver.
func withDrivers(t *testing.T, body func(t *testing.T)) {
	for _, vendor := range []string{"cuda", "hip"} {
		t.Run(vendor, func(t *testing.T) {
			fakes.Build(t).Use(t)
			if vendor == "hip" {
				t.Setenv("CX_CUDA_LIB", "/nowhere/libcuda.so.1")
			}
			body(t)
		})
	}
}

// Every test moves every word, on one stream and on several, and has both clocks.
func TestCopiesArriveWhole(t *testing.T) {
	withDrivers(t, func(t *testing.T) {
		for _, test := range copies.Tests() {
			if of := copies.TestOf(test); strings.HasSuffix(test, "_sm") || of.Swap || of.Ranks == copies.All {
				continue // package sm has these, TestSwaps and TestCopiesOfAllDevices the others
			}
			d := copytest.Processes(t, "", plantest.Copy("ce", test, func(c *plan.Case) { copies.Of(c).Streams = []int{1, 3, 4}; copies.Of(c).Sizes = []int64{12 << 10} }))
			copytest.Arrived(t, d)
			require.Equal(t, "device", d.Measurement.CheckedBy)
			for _, r := range d.Measurement.Rows {
				require.Equal(t, r.Streams, r.Pieces)
				require.NotNil(t, r.Device, r.Name())
				require.Equal(t, 2, r.Device.Micros.N)
				require.Equal(t, 2, r.Host.Micros.N)
				both := copies.TestOf(test).Both && copies.TestOf(test).Ranks > 1
				require.Equal(t, both, r.Device.OppositeGBps > 0)
			}
		}
	})
}

// Three devices copy at the same time, and each pair of them in turn, by both clocks.
func TestCopiesOfAllDevices(t *testing.T) {
	t.Setenv("CX_FAKE_DEVICES", "3")
	withDrivers(t, func(t *testing.T) {
		tests := []string{"device_to_device_memcpy_read_ce", "device_to_device_bidirectional_memcpy_write_ce"}
		for _, test := range copies.Tests() {
			if strings.HasSuffix(test, "_ce") && copies.TestOf(test).Ranks == copies.All {
				tests = append(tests, test)
			}
		}
		for i, test := range tests {
			t.Run(test, func(t *testing.T) {
				if i > 2 {
					need.Full(t)
				}
				d := copytest.Processes(t, "", plantest.CopyOn("ce", test, 3, func(c *plan.Case) { copies.Of(c).Streams = []int{1, 2}; copies.Of(c).Sizes = []int64{16 << 10} }))
				copytest.Arrived(t, d)
				require.Equal(t, "device", d.Measurement.CheckedBy)
				for _, r := range d.Measurement.Rows {
					require.NotNil(t, r.Device, r.Name())
					require.Equal(t, 2, r.Device.Micros.N)
					require.Equal(t, copies.TestOf(test).Disturbed(), r.Covered != nil)
				}
			})
		}
	})
}

// The pair of devices whose copies are slow is the slow pair of its case, by its direction.
func TestASlowPairIsNamed(t *testing.T) {
	t.Setenv("CX_FAKE_DEVICES", "3")
	t.Setenv("CX_FAKE_SLOW", "2:1:30000")
	fakes.Build(t).Use(t)
	for _, test := range []string{"device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce"} {
		d := copytest.Processes(t, "", plantest.CopyOn("ce", test, 3, func(c *plan.Case) { copies.Of(c).Sizes = []int64{64 << 10} }))
		copytest.Arrived(t, d)
		s := copies.SquareOf(d, 64<<10, 1)
		slow := s.Slow(s.Median())
		require.True(t, slices.ContainsFunc(slow, func(p table.Slow) bool { return p.Src == 2 && p.Dst == 1 }),
			"%v of %v; on a loaded machine, others may be slower", slow, d.Measurement.Rows)
	}
}

// Each kind of host memory is copied from and to. Calls with pageable memory wait for the
// copy, which a gate would hold for ever: they have the host's clock alone.
func TestHostMemory(t *testing.T) {
	withDrivers(t, func(t *testing.T) {
		for _, kind := range []string{copies.Pinned, copies.Pageable, copies.Registered} {
			for _, test := range []string{"host_to_device_memcpy_ce", "device_to_host_memcpy_ce"} {
				d := copytest.Processes(t, "", plantest.Copy("ce", test, func(c *plan.Case) { copies.Of(c).HostMemory = kind }))
				copytest.Arrived(t, d)
				for _, r := range d.Measurement.Rows {
					require.Equal(t, kind != copies.Pageable, r.Device != nil)
				}
			}
		}
	})
}

// Scattered pages arrive in their places. More of them than a device queues have no window
// behind the gate.
func TestPages(t *testing.T) {
	fakes.Build(t).Use(t)
	d := copytest.Processes(t, "", plantest.Copy("ce", "host_to_device_memcpy_ce", func(c *plan.Case) {
		copies.Of(c).PageBytes, copies.Of(c).Sizes, copies.Of(c).Streams = 1024, []int64{16 << 10, 1 << 20}, []int{1, 2}
	}))
	copytest.Arrived(t, d)
	for _, r := range d.Measurement.Rows {
		require.Equal(t, r.Bytes < 1<<20, r.Device != nil, r.Name())
	}
}

// Pages in one call arrive in their places too, by each form of the call. A driver without any
// is refused.
func TestBatches(t *testing.T) {
	paged := func(test string) plan.Case {
		return plantest.Copy("ce", test, func(c *plan.Case) {
			copies.Of(c).Submission, copies.Of(c).PageBytes, copies.Of(c).Sizes, copies.Of(c).Streams = copies.Batch, 1024, []int64{16 << 10}, []int{1, 2}
		})
	}
	withDrivers(t, func(t *testing.T) {
		for _, test := range []string{"host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_to_device_memcpy_read_ce"} {
			copytest.Arrived(t, copytest.Processes(t, "", paged(test)))
		}
	})
	for name, hidden := range map[string][]string{"the first form": {"cuMemcpyBatchAsync_v2"}, "no form": {"cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2"}} {
		t.Run(name, func(t *testing.T) {
			fakes.Build(t).Use(t)
			t.Setenv("CX_CUDA_LIB", fakes.OldCUDA(t, hidden...))
			d := copytest.Processes(t, "", paged("host_to_device_memcpy_ce"))
			if len(hidden) == 1 {
				copytest.Arrived(t, d)
				return
			}
			require.Equal(t, result.Failed, d.Outcome.Status)
			require.Equal(t, result.ReasonRefused, d.Outcome.Code())
		})
	}
}

// Swaps of blocks arrive in their places, with a call for each block and, where the driver has it, with one for all.
func TestSwaps(t *testing.T) {
	swap := func(test, submission string) plan.Case {
		return plantest.Copy("ce", test, func(c *plan.Case) { copies.Of(c).Submission = submission })
	}
	withDrivers(t, func(t *testing.T) {
		for _, test := range []string{"swap_blocks_h2d", "swap_blocks_d2h", "swap_blocks_d2d"} {
			for _, submission := range copies.Submissions() {
				d := copytest.Processes(t, "", swap(test, submission))
				copytest.Arrived(t, d)
				require.Equal(t, "device", d.Measurement.CheckedBy)
			}
		}
	})
	fakes.Build(t).Use(t)
	t.Run("faults", func(t *testing.T) {
		c := swap("swap_blocks_d2h", copies.Batch)
		copies.Of(&c).NumBlocks = []int{5, 32}
		copytest.FaultsAreNamed(t, copytest.Processes, c, "0", "0")
	})
	t.Setenv("CX_CUDA_LIB", fakes.OldCUDA(t, "cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2"))
	d := copytest.Processes(t, "", swap("swap_blocks_h2d", copies.Batch))
	require.Equal(t, result.ReasonRefused, d.Outcome.Code(), "no call for all blocks")
	copytest.Arrived(t, copytest.Processes(t, "", swap("swap_blocks_h2d", copies.Loop)))
}

// Copies run beside a victim, whose work is whole, in turns with both alone. A stand-in's
// multiprocessors are the processors of this machine, so that its slowdowns mean nothing.
func TestVictims(t *testing.T) {
	beside := func(test string, change func(b *copies.Block)) plan.Case {
		return plantest.Copy("ce", test, func(c *plan.Case) {
			copies.Of(c).Victim, copies.Of(c).Sizes = true, []int64{8 << 20}
			if change != nil {
				change(copies.Of(c))
			}
		})
	}
	withDrivers(t, func(t *testing.T) {
		for i, test := range []string{"host_to_device_memcpy_ce", "device_local_copy", "device_to_device_memcpy_read_ce"} {
			t.Run(test, func(t *testing.T) {
				if i > 0 {
					need.Full(t)
				}
				d := copytest.Processes(t, "", beside(test, func(b *copies.Block) { b.Streams = []int{1, 2} }))
				copytest.Arrived(t, d)
				for _, r := range d.Measurement.Rows {
					v := r.Victim
					require.NotNil(t, v, r.Name())
					for _, times := range []result.Burst{v.Alone, v.Beside, v.CopyBeside} {
						require.Equal(t, d.Measurement.Sampling.Windows, times.N)
					}
					require.Equal(t, v.Coverage >= result.MinCoverage, v.Slowdown != nil)
					require.Equal(t, v.CopyCoverage >= result.MinCoverage, v.CopySlowdown != nil)
					t.Logf("%s, %s: %+v", test, r.Name(), *v)
				}
			})
		}
	})
	fakes.Build(t).Use(t)
	t.Run("slowed down", func(t *testing.T) {
		// The victim ends after 200 copies beside it, which is more than twice those of a window.
		const lasts = 200
		t.Setenv("CX_FAKE_DISTURBED", fmt.Sprintf("cx_victim=%d", lasts))
		d := copytest.Processes(t, "", beside("device_local_copy", nil))
		require.Less(t, 2*d.Measurement.Sampling.Copies, lasts)
		copytest.Arrived(t, d)
		for _, r := range d.Measurement.Rows {
			v := r.Victim
			require.Greater(t, v.Beside.P50, 2*v.Alone.P50)
			require.Equal(t, v.Coverage >= result.MinCoverage, v.Slowdown != nil, "%+v", *v) // covered, on an idle machine
		}
	})
	t.Run("half of the work", func(t *testing.T) {
		d := copytest.Processes(t, "rank=1,kind="+runner.FaultVictim, beside("device_to_device_memcpy_read_ce", nil))
		require.Equal(t, result.Invalid, d.Outcome.Status)
		require.Regexp(t, `^check-failed: the victim took \d+ units and computed \d+, want \d+ and \d+$`, d.Outcome.Reasons.String())
		require.False(t, d.Measurement.Rows[0].Verify.Passed)
	})
	for name, tc := range map[string]struct {
		variable, value string
		want            result.Code
		change          func(*copies.Block)
	}{
		"too many pieces": {want: result.ReasonRefused, change: func(b *copies.Block) { b.PageBytes = 8 << 20 / 256 }},
		"no compiler":     {variable: "CX_NVRTC_LIB", value: "/nowhere/libnvrtc.so.13", want: result.ReasonRefused},
		"a failed launch": {variable: "CX_FAKE_FAIL", value: "cuLaunchKernel#9=719", want: result.ReasonDevice},
	} {
		t.Run(name, func(t *testing.T) {
			fakes.Build(t).Use(t)
			if tc.variable != "" {
				t.Setenv(tc.variable, tc.value)
			}
			d := copytest.Processes(t, "", beside("device_to_host_memcpy_ce", tc.change))
			require.Equal(t, result.Failed, d.Outcome.Status)
			require.Equal(t, tc.want, d.Outcome.Code())
		})
	}
}

func TestFaultsAreNamed(t *testing.T) {
	fakes.Build(t).Use(t)
	copytest.FaultsAreNamed(t, copytest.Processes, plantest.Copy("ce", "device_to_host_memcpy_ce"), "0", "0")
}

// What the driver refuses ends the case with its reason. A failed copy behind the gate ends
// too, since the gate is opened.
func TestFailures(t *testing.T) {
	for _, tc := range []struct{ name, variable, value, kind, reason string }{
		{"a copy fails", "CX_FAKE_FAIL", "cuMemcpyHtoDAsync_v2#9=719", copies.Pinned, "device-error"},
		{"too little memory of the device", "CX_FAKE_MEMORY", "4194304", copies.Pinned, "memory-for-size"},
		{"no page-locked memory", "CX_FAKE_FAIL", "cuMemHostAlloc#3=2", copies.Pinned, "out-of-memory"},
		{"registered already", "CX_FAKE_FAIL", "cuMemHostRegister_v2=712", copies.Registered, "device-error"},
		{"a driver that cannot register", "CX_CUDA_LIB", "cuMemHostRegister_v2", copies.Registered, "refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fakes.Build(t).Use(t)
			value := tc.value
			if tc.variable == "CX_CUDA_LIB" {
				value = fakes.OldCUDA(t, value)
			}
			t.Setenv(tc.variable, value)
			d := copytest.Processes(t, "", plantest.Copy("ce", "host_to_device_memcpy_ce", func(c *plan.Case) { copies.Of(c).HostMemory = tc.kind }))
			require.Equal(t, result.Failed, d.Outcome.Status)
			require.Contains(t, d.Outcome.Reasons[0].String(), tc.reason)
		})
	}
}

// On devices whose clocks stay capped, every trial is repeated in vain, counts and is checked.
func TestCappedTrialsAreRepeated(t *testing.T) {
	fakes.Build(t).Use(t)
	c := plantest.Copy("ce", "device_to_device_bidirectional_memcpy_read_ce", func(c *plan.Case) { copies.Of(c).Sizes = []int64{12 << 10} })
	alone := copytest.Processes(t, "", c).Measurement.Rows[0]
	t.Setenv("CX_FAKE_REASONS", "64")
	d := copytest.Processes(t, "", c)
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	row := d.Measurement.Rows[0]
	require.Equal(t, alone.Device.Micros.N, row.Device.Micros.N)
	require.Equal(t, alone.Host.Micros.N, row.Host.Micros.N)
	require.Equal(t, (1+result.MaxRepeats)*alone.Verify.Checks, row.Verify.Checks)
}
