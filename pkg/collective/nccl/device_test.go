package nccl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/compilers"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wheels"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// The kernels compile with the headers that lie beside the library in its wheel, without CUDA's.
func TestRealCompilerTakesTheDeviceKernels(t *testing.T) {
	need.Full(t) // fetches NCCL's headers
	t.Setenv("CX_NCCL_LIB", filepath.Join(wheels.NCCL.Libraries(t), "nvidia/nccl/lib/libnccl.so.2"))
	l, err := nccl.Open(nccl.NCCL)
	require.NoError(t, err)
	headers, err := l.DeviceHeaders()
	require.NoError(t, err)
	require.NoError(t, eachDevice(func(op runner.Op, algorithm string) error {
		t.Run(fmt.Sprint(op, " ", algorithm), func(t *testing.T) {
			compilers.NVRTC(t, "device.cu", deviceSource(headers, op, algorithm))
		})
		return nil
	}))
}

// shifted is memory whose buffers begin later.
type shifted struct {
	runner.Memory
	by int64
}

func (m shifted) Ptr() accel.Ptr { return m.Memory.Ptr().Add(m.by) }

// withDevice does an operation with an algorithm on types, in place and not, aligned and not.
func (e *end) withDevice(op runner.Op, algorithm string, types []numeric.Type) error {
	if err := e.comm.Choose(op, algorithm, 3); err != nil {
		return err
	}
	m, err := e.comm.Alloc(context.Background(), 3<<20, vocab.SymmetricWindow)
	if err != nil {
		return err
	}
	redop := workload.NoRedOp
	if op.Reduces() {
		redop = workload.Sum
	}
	for _, dt := range types {
		for _, bytes := range []int64{8, 5000, 70000} {
			for _, at := range []shifted{{m, 0}, {m, int64(dt.Size())}} {
				for _, inPlace := range []bool{false, op.InPlace()} {
					if err := e.run(at, op, dt, redop, bytes, inPlace); err != nil {
						return fmt.Errorf("%s %s %s: %w", op, algorithm, dt, err)
					}
				}
			}
		}
	}
	return m.Close()
}

// each calls f for every operation and algorithm of kernels.
func eachDevice(f func(op runner.Op, algorithm string) error) error {
	for _, op := range runner.Ops() {
		for _, algorithm := range collective.DeviceAlgorithms(op.String()) {
			if err := f(op, algorithm); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestDeviceKernels(t *testing.T) {
	need.Full(t)
	setUp(t)
	for _, err := range together(t, nccl.NCCL, 3, func(e *end) error {
		return eachDevice(func(op runner.Op, algorithm string) error {
			types := []numeric.Type{numeric.Int8, numeric.Half, numeric.Float, numeric.Double} // of each size
			if op.Reduces() {
				types = numeric.Types()[:numeric.F8E4M3]
			}
			return e.withDevice(op, algorithm, types)
		})
	}) {
		require.NoError(t, err)
	}
}

// deviceCase is a case of an operation by kernels, with group calls, alone and in graphs.
func deviceCase(op runner.Op, algorithm string, world int) plan.Case {
	c := caseOf(nccl.NCCL, op, world)
	b := collective.Of(&c)
	b.Registration, b.Algorithm, b.Measure.Aggregate = vocab.SymmetricWindow, algorithm, 3
	b.Modes = []string{vocab.Pipelined, vocab.Graph}
	if op.Reduces() {
		b.RedOp = "sum"
	}
	return c
}

// Documents name the kernels, in their rows and their key, and the results are checked as all others.
func TestDeviceKernelsAreMeasured(t *testing.T) {
	setUp(t)
	require.NoError(t, measuredByDevice(t, runner.AllReduce, "device_lsa_vec"))
	require.NoError(t, measuredByDevice(t, runner.P2P, deviceWindow))
}

func TestEveryDeviceKernelIsMeasured(t *testing.T) {
	need.Full(t)
	setUp(t)
	require.NoError(t, eachDevice(func(op runner.Op, algorithm string) error { return measuredByDevice(t, op, algorithm) }))
}

func measuredByDevice(t *testing.T, op runner.Op, algorithm string) error {
	t.Helper()
	d, errs := measured(t, deviceCase(op, algorithm, 2))
	require.Equal(t, "ncclGetPeerPointer", d.Measurement.Path)
	require.NotEmpty(t, d.Measurement.Rows)
	for _, row := range d.Measurement.Rows {
		require.Equal(t, algorithm, row.Algorithm)
		require.NotNil(t, row.Pipelined)
		require.NotNil(t, row.Graph)
		require.Positive(t, row.Check.Checked)
		require.Zero(t, row.Check.Wrong, "%s %s: %v", op, algorithm, row.Check)
	}
	require.NotEqual(t, keyOf(t, deviceCase(op, "", 2)), d.ComparisonKey, "figures of kernels are compared with each other alone")
	return errors.Join(errs...)
}

func keyOf(t *testing.T, c plan.Case) string {
	t.Helper()
	doc, err := result.New(c, result.Attempt{Ordinal: 1, Vendor: "nvidia", Generator: "test 0"})
	require.NoError(t, err)
	return doc.(*collective.Document).ComparisonKey
}

// Kernels that leave out an input, or put a sum in the place of another, are found.
func TestDeviceKernelsThatAreWrong(t *testing.T) {
	need.Full(t)
	right := deviceKernels
	defer func() { deviceKernels = right }()
	setUp(t)
	for _, wrong := range []struct {
		right, wrong string
		op           runner.Op
		algorithm    string
	}{
		{"for (int p = 1; p < w.world; p++)", "for (int p = 1; p < w.world - 1; p++)", runner.AllReduce, "device_lsa"},
		{"out[j].of[e] = N::out(v[j][e]);", "out[j].of[e] = N::out(v[j][0]);", runner.AllReduce, "device_lsa_vec"},
		{"cx_message(w, calls.at[i]);", "cx_message(w, calls.at[0]);", runner.P2P, deviceWindow},
	} {
		require.Equal(t, 1, strings.Count(right, wrong.right))
		deviceKernels = strings.Replace(right, wrong.right, wrong.wrong, 1)
		d, _ := measured(t, deviceCase(wrong.op, wrong.algorithm, 2))
		require.Positive(t, d.Measurement.Rows[1].Check.Wrong, "%s: %v", wrong.algorithm, d.Outcome.Reasons)
	}
}

// Messages are counted where they arrive, those of no bytes too, which are signals alone. Two signals of a message
// are one too many.
func TestMessagesAreCounted(t *testing.T) {
	need.Full(t)
	right := deviceKernels
	defer func() { deviceKernels = right }()
	setUp(t)
	of := func(op runner.Op, algorithm string) *collective.Document {
		c := deviceCase(op, algorithm, 2)
		b := collective.Of(&c)
		b.Sizes, b.Modes = []int64{0, 1 << 16}, []string{vocab.Pipelined}
		d, errs := measured(t, c)
		require.NoError(t, errors.Join(errs...))
		return d
	}
	const timed = 2 * 3 * 3 // operations, beside four untimed ones, which the two pairs of a p2p share
	for _, tt := range []struct {
		op        runner.Op
		algorithm string
		messages  int64 // that are counted
	}{{runner.P2P, deviceWindow, timed + 2}, {runner.P2P, deviceGet, timed + 2}, {runner.P2PBidir, "device_ping_pong", 2 * (timed + 4)}} {
		deviceKernels = right
		for _, row := range of(tt.op, tt.algorithm).Measurement.Rows {
			require.Zero(t, row.Check.Wrong)
			require.True(t, row.Good())
			require.Positive(t, row.Check.Checked)
		}
		deviceKernels = strings.NewReplacer("*sent += 1;", "*sent += 1 + (kind == CX_DATA);", "*seen += 1;", "*seen += 1 + (kind == CX_DATA);").Replace(right)
		for _, row := range of(tt.op, tt.algorithm).Measurement.Rows {
			require.Equal(t, tt.messages, row.Check.Wrong, tt.algorithm)
		}
	}
}

// What keeps kernels from the memory of other ranks is a refusal in one line, on every rank.
func TestDeviceKernelsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(t *testing.T)
		c    func(c *plan.Case)
		want string
	}{
		{"an old library", func(t *testing.T) {
			t.Setenv("CX_NCCL_LIB", fakes.Variant{Hide: []string{"ncclTeamLsa"}}.Build(t))
		}, nil, "nccl 2.28.9 has no device interface for device_lsa: load NCCL 2.28 or newer"},
		{"two hosts", func(t *testing.T) { t.Setenv("CX_FAKE_NCCL_LSA", "1") }, nil, "reach the memory of 1 ranks, but the case has 2: use GPUs that NVLink joins (nccl 2.28.9 does not report whether it has GIN"},
		{"two hosts with a network", func(t *testing.T) {
			t.Setenv("CX_FAKE_NCCL_LSA", "1")
			t.Setenv("CX_FAKE_NCCL_VERSION", "22907")
			t.Setenv("CX_FAKE_NCCL_GIN", "2")
		}, nil, "the case has 2: … (nccl reports the GIN of the communicator as proxy, and there are no kernels over it)"},
		{"no headers", func(t *testing.T) { t.Setenv("CX_NCCL_INCLUDE", "/nowhere") }, nil, "core__funcs.h of nccl 2.28.9 is not in /nowhere: install … CX_NCCL_INCLUDE"},
		{"other headers", func(t *testing.T) { t.Setenv("CX_FAKE_NCCL_VERSION", "22907") }, nil, "nccl.h is of another version than the library, 2.29.7: install both"},
		{"no compiler", func(t *testing.T) { t.Setenv("CX_NVRTC_LIB", "/nowhere/libnvrtc.so.13") }, nil, "compile kernels over NCCL's device interface: … /nowhere"},
		{"no windows", func(t *testing.T) { t.Setenv("CX_FAKE_NCCL_NO_HANDLE", "1") }, nil, "NCCL made no symmetric window … NCCL_DEBUG=INFO"},
		{"not registered", func(*testing.T) {}, func(c *plan.Case) { collective.Of(c).Registration = vocab.Unregistered }, "NCCL made no symmetric window"},
		{"a product", func(*testing.T) {}, func(c *plan.Case) { collective.Of(c).RedOp = "prod" }, "do not add prod: use sum"},
		{"a small type", func(*testing.T) {}, func(c *plan.Case) { c.Precision = "f8e4m3" }, "do not add f8e4m3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			setUp(t)
			tt.set(t)
			c := deviceCase(runner.AllReduce, "device_lsa", 2)
			if tt.c != nil {
				tt.c(&c)
			}
			_, errs := measured(t, c)
			for _, err := range errs {
				require.Regexp(t, "^refused(: kernels of -D do not add [a-z0-9]+)?$", reason(t, err))
				wording.Has(t, err.Error(), tt.want)
				require.NotContains(t, err.Error(), "\n")
			}
		})
	}
}

// A kernel that waits for a rank that does not come ends with an abort.
func TestAbortEndsDeviceKernels(t *testing.T) {
	setUp(t)
	aborted := make(chan struct{})
	for _, err := range together(t, nccl.NCCL, 2, func(e *end) error {
		if err := e.comm.Choose(runner.AllReduce, "device_lsa", 0); err != nil {
			return err
		}
		m, err := e.comm.Alloc(context.Background(), 1<<20, vocab.SymmetricWindow)
		if err != nil {
			return err
		}
		if e.Rank > 0 {
			<-aborted
			e.comm.Abort()
			return m.Close()
		}
		defer close(aborted)
		call := runner.Call{Op: runner.AllReduce, RedOp: workload.Sum, Type: numeric.Float, Count: 4, Send: m.Ptr(), Recv: m.Ptr().Add(1 << 10)}
		if err := e.comm.Enqueue(e.stream, []runner.Call{call}, 1); err != nil {
			return err
		}
		if done, err := e.stream.Query(); done || err != nil {
			return fmt.Errorf("the kernel did not wait: %w", err)
		}
		e.comm.Abort()
		return errors.Join(e.stream.Synchronize(), m.Close())
	}) {
		require.NoError(t, err)
	}
}

// The layouts that device.cu reads.
func TestDeviceConstants(t *testing.T) {
	for text, want := range map[string]int{"CX_THREADS = ": deviceThreads, "CX_CALLS = ": deviceCalls, "CX_LINE = ": signalLine} {
		require.Contains(t, deviceKernels, text+fmt.Sprint(want))
	}
	for _, name := range collective.AlgorithmNames() {
		_, has := deviceWays[name]
		require.Equal(t, collective.ByDevice(name), has, name)
	}
}
