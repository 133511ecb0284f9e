package run

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	collectivebench "github.com/collectivex/collectivex/pkg/collective/bench"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// standIns makes this program and its ranks find the vendors' stand-ins, with
// two devices.
func standIns(t *testing.T) {
	t.Helper()
	fakes.Build(t).Use(t)
	t.Setenv("CX_FAKE_DEVICES", "2")
}

// withoutNVIDIA leaves the other vendor's devices to be found: no variable names a CUDA driver, nor a
// library that would bring one into the process.
func withoutNVIDIA(t *testing.T) {
	t.Helper()
	for _, name := range []string{"CX_CUDA_LIB", "CX_NCCL_LIB", "CX_NCCL_EP_LIB", "CX_MSCCLPP_LIB"} {
		t.Setenv(name, "")
	}
	t.Setenv("CX_NVML_LIB", "/nowhere/libnvidia-ml.so.1")
}

// doctorApart runs doctor in a process of its own: this one keeps the drivers that earlier tests
// loaded, and the loader finds them by their names.
func doctorApart(t *testing.T, backend string) string {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), program, "doctor", "--backend", backend).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// benched runs bench and returns its JSON.
func benched(t *testing.T, code int, args ...string) (report collectivebench.Report, stderr string) {
	t.Helper()
	got, stdout, stderr := cxrun(t, nil, append([]string{"bench", "--json"}, args...)...)
	require.Equal(t, code, got, stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), &report), "standard output is JSON alone: %s", stdout)
	return report, stderr
}

func TestBenchFindsTheGPUs(t *testing.T) {
	standIns(t)
	stdout, _ := ran(t, cli.ExitOK, nil, "bench", "all_reduce", "-b", "8", "-e", "4K", "-f", "8")
	wording.Has(t, stdout, "backend nccl (chosen: … 2 × ")
	require.Contains(t, stdout, "# library nccl 2.28.9 on ")
	require.Contains(t, stdout, "#  Rank  1 device  1 CX Fake NVIDIA GPU\n")

	withoutNVIDIA(t)
	report, _ := benched(t, cli.ExitOK, "all_reduce", "-b", "8", "-e", "4K", "-f", "8")
	require.Equal(t, "rccl", report.Backend)
	require.Equal(t, "rccl", report.Library.Kind)
}

// A library that skips operations, or does them by half or elsewhere, and says
// nothing, is found at every size.
func TestBenchFindsALibraryThatLies(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("CX_NCCL_LIB", fakes.Liar(t, os.Getenv("CX_NCCL_LIB")))
	for _, order := range []string{"every:7", "from:6", "half", "swap"} {
		t.Run(order, func(t *testing.T) {
			t.Setenv("CX_LIE", order)
			report, _ := benched(t, cli.ExitFailed, "all_reduce", "--backend", "nccl", "-b", "1K", "-e", "1025K", "-f", "1025", "-n", "4", "-d", "double")
			wrong := map[int64]bool{}
			for _, row := range report.Results[0].Rows {
				wrong[row.Requested] = wrong[row.Requested] || row.Check.Wrong > 0
			}
			require.Equal(t, map[int64]bool{1 << 10: true, 1025 << 10: true}, wrong)
		})
	}
}

func TestBenchFlagsReachTheLibrary(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Run("-R 2 -x 2", func(t *testing.T) {
		r, _ := benched(t, cli.ExitOK, "all_reduce", "-b", "1K", "-e", "1K", "-R", "2", "-x", "2")
		require.Equal(t, "symmetric", r.Results[0].Registration)
		require.True(t, r.Results[0].Registered)
		require.Equal(t, "2", r.Results[0].Environment["NCCL_CTA_POLICY"])
	})
	t.Run("-G 3", func(t *testing.T) {
		r, _ := benched(t, cli.ExitOK, "all_gather", "-b", "1K", "-e", "1K", "-G", "3", "-C", "1")
		for _, row := range r.Results[0].Rows {
			require.NotNil(t, row.Graph)
			require.Nil(t, row.Pipelined)
			require.Equal(t, row.Graph.Enqueue, row.Shown.TimeUS)
		}
	})
	t.Run("-z 3 -I 1", func(t *testing.T) {
		r, _ := benched(t, cli.ExitOK, "reduce", "-b", "1K", "-e", "1K", "-z", "3", "-I", "1", "-n", "7", "-r", "-1", "-o", "max")
		require.Len(t, r.Results, 2, "a case for each root")
		for root, c := range r.Results {
			require.Equal(t, root, c.Root)
			require.Equal(t, 7, c.Rows[0].Blocking.SampleCount)
			require.Equal(t, 7, c.Rows[0].PerIteration.SampleCount)
		}
	})
}

// Algorithms are measured beside the library's own choice, and one that it refuses is no failure.
func TestBenchComparesAlgorithms(t *testing.T) {
	need.Full(t)
	standIns(t)
	report, _ := benched(t, cli.ExitOK, "all_reduce", "-b", "1K", "-e", "128K", "-f", "128", "--algo", "ring_ll,nvls", "-n", "2")
	var ran []string
	for _, c := range report.Results {
		ran = append(ran, c.Algorithm)
		if c.Algorithm == "ring_ll" {
			require.Equal(t, "Ring", c.Environment["NCCL_ALGO"])
			require.Equal(t, "LL", c.Environment["NCCL_PROTO"])
		}
	}
	require.Equal(t, []string{"", "ring_ll", "nvls_simple"}, ran)
	require.Len(t, report.Algorithms, 2, "a comparison for each placement")
	a := report.Algorithms[0]
	require.Equal(t, map[string]string{"nvls_simple": "refused: nvls_simple not offered, ncclAllReduce ncclInvalidUsage, rank 0"}, a.NotOffered)
	require.Equal(t, []string{"tree_ll", "ring_ll128"}, []string{a.Sizes[0].Chosen, a.Sizes[1].Chosen})
	require.Contains(t, []string{"auto", "ring_ll"}, a.Sizes[0].Best)
	require.NotNil(t, a.Sizes[0].Cost)

	t.Setenv("CX_FAKE_NCCL_VERSION", "23102") // whose calls take the algorithm
	report, _ = benched(t, cli.ExitOK, "all_reduce", "-b", "128K", "-e", "128K", "--algo", "ring_ll,tree_ll128", "--ctas", "5", "-n", "2")
	require.Len(t, report.Results, 6)
	for _, c := range report.Results[1:] {
		require.Equal(t, "ncclAllReduceConfig", c.Path)
		require.Empty(t, c.Environment["NCCL_ALGO"]+c.Environment["NCCL_MAX_CTAS"])
		require.Equal(t, cmp.Or(c.Algorithm, "ring_ll128"), c.Rows[0].Algorithm)
		require.Equal(t, cmp.Or(c.CTAs, 2), c.Rows[0].CTAs)
	}
}

// Messages and signals between two ranks by our kernels have a rate.
func TestBenchHasMessageRates(t *testing.T) {
	need.Full(t)
	standIns(t)
	report, _ := benched(t, cli.ExitOK, "p2p_bidir", "-D", "4", "-R", "2", "-b", "0", "-e", "64", "-i", "64", "-m", "4", "-n", "2")
	rows := report.Results[0].Rows
	require.Len(t, rows, 2)
	for _, row := range rows {
		require.True(t, row.Good())
		require.Positive(t, row.Check.Checked, "of signals alone too")
		require.InEpsilon(t, 2e6/row.Shown.TimeUS, row.Shown.Rate, 1e-9, "both ways")
	}
}

// noAMD hides the other vendor's stand-ins too.
func noAMD(env map[string]string) map[string]string {
	out := map[string]string{"CX_HIP_LIB": "", "CX_RCCL_LIB": "/nowhere/rccl"}
	maps.Copy(out, env)
	return out
}

// unlike is a machine with a small device among large ones.
var unlike = map[string]string{"CX_FAKE_DEVICES": "3", "CX_FAKE_NAME": "NVIDIA H200|NVIDIA T400|NVIDIA H200"}

// setEnv sets what a case of a table says.
func setEnv(t *testing.T, env map[string]string) {
	t.Helper()
	for k, v := range env {
		t.Setenv(k, v)
	}
}

// The devices that the driver shows are those of the ranks, whatever else is here.
func TestBenchDevicesThatArePicked(t *testing.T) {
	need.Full(t)
	standIns(t)
	setEnv(t, noAMD(unlike))
	t.Setenv("CUDA_VISIBLE_DEVICES", "2,0")
	stdout, stderr := ran(t, cli.ExitOK, nil, "bench", "all_reduce", "-b", "8", "-e", "8")
	wording.Has(t, stdout, "backend nccl (chosen: … 2 × h200")
	require.Contains(t, stdout, "#  Rank  1 device  1 NVIDIA H200\n")
	require.Empty(t, stderr)
}

// nccl-tests' variable moves the ranks to later devices among the visible ones.
func TestBenchFromADevice(t *testing.T) {
	need.Full(t)
	standIns(t)
	setEnv(t, noAMD(unlike))
	t.Setenv("CUDA_VISIBLE_DEVICES", "1,0,2") // the first one is of another product
	t.Setenv("HIP_VISIBLE_DEVICES", "0,1,2")
	t.Setenv("NCCL_TESTS_DEVICE", "1")
	stdout, _ := ran(t, cli.ExitOK, nil, "bench", "all_reduce", "-b", "8", "-e", "8")
	wording.Has(t, stdout, "backend nccl (chosen: … 2 × h200")
	require.Equal(t, "0,2", os.Getenv("CUDA_VISIBLE_DEVICES"))

	for device, want := range map[string]string{"2": "NCCL_TESTS_DEVICE=2: CUDA_VISIBLE_DEVICES has 2 devices", "x": "NCCL_TESTS_DEVICE=x: want the number of a device"} {
		t.Setenv("NCCL_TESTS_DEVICE", device)
		_, stderr := ran(t, cli.ExitUsage, nil, "bench", "all_reduce", "-b", "8", "-e", "8")
		require.Contains(t, stderr, want)
	}

	for device, want := range map[string]string{
		"1": "this machine has 1; NCCL_TESTS_DEVICE=1 hides the devices before number 1: choose a lower one, or unset it",
		"9": "NCCL_TESTS_DEVICE=9 hides the devices before number 9",
	} {
		for _, name := range visibleDevices {
			require.NoError(t, os.Unsetenv(name)) // t.Setenv above restores it
		}
		t.Setenv("CX_FAKE_DEVICES", "2")
		t.Setenv("NCCL_TESTS_DEVICE", device)
		_, stderr := ran(t, cli.ExitEnvironment, nil, "bench", "all_reduce", "-b", "8", "-e", "8", "-g", "2")
		require.Contains(t, stderr, want)
	}
}

// With both vendors' libraries, a backend that is named gets its vendor's devices.
func TestBenchOfEitherVendor(t *testing.T) {
	need.Full(t)
	standIns(t)
	r, _ := benched(t, cli.ExitOK, "all_reduce", "--backend", "rccl", "-b", "8", "-e", "8")
	require.Equal(t, "rccl", r.Library.Kind)
	require.Equal(t, "CX Fake AMD GPU", *r.Device)
}

func TestADeviceThatIsLostIsTold(t *testing.T) {
	need.Full(t)
	standIns(t)
	setEnv(t, noAMD(map[string]string{"CX_FAKE_NVML_LOST": "1"}))
	const note = "ranks get 1 of 2 NVIDIA GPUs: NVML cannot open device 1: see nvidia-smi"
	r, stderr := benched(t, cli.ExitOK, "all_reduce", "-b", "8", "-e", "8")
	require.Equal(t, 1, r.World)
	require.Equal(t, "cxrun: warning: "+note+"\n", stderr)

	stdout, _ := ran(t, cli.ExitOK, nil, "doctor", "--backend", "nccl")
	require.Regexp(t, `^nccl +ready +1 of 2 NVIDIA GPUs, .*\nnccl +note +`+note+"\n$", stdout)

	_, stderr = ran(t, cli.ExitOK, nil, "sweep", "--definitions", fewSamples(t), "--out", filepath.Join(t.TempDir(), "out"), "--backend", "nccl", "--op", "all_reduce")
	require.Equal(t, 1, strings.Count(stderr, note))
}

// A sweep goes on with the host where GPUs cannot be used, but not past a library
// that was named and cannot be.
func TestSweepOfGPUsThatCannotBeUsed(t *testing.T) {
	need.Full(t)
	standIns(t)
	setEnv(t, noAMD(map[string]string{"CX_FAKE_FAIL": "cuInit=803"}))
	out := filepath.Join(t.TempDir(), "out")
	_, stderr := ran(t, cli.ExitOK, nil, "sweep", "--definitions", fewSamples(t), "--out", out, "--op", "all_reduce", "--world", "2")
	require.Len(t, sweptDocuments(t, out), 1)
	require.Equal(t, 1, strings.Count(stderr, "warning: "), stderr)
	wording.Has(t, stderr, "warning: … 2 NVIDIA GPUs … CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)")

	t.Setenv("CX_FAKE_FAIL", "")
	t.Setenv("CX_NCCL_LIB", "/nowhere/libnccl.so.2")
	out = filepath.Join(t.TempDir(), "out")
	_, stderr = ran(t, cli.ExitEnvironment, nil, "sweep", "--out", out)
	wording.Has(t, stderr, "cxrun: … CX_NCCL_LIB=/nowhere/libnccl.so.2")
	require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	require.NoDirExists(t, out, "nothing was begun")
}

func TestDoctorOfALibraryThatIsNotWhole(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("CX_NCCL_LIB", fakes.Variant{Hide: []string{"ncclAllReduce"}}.Build(t))
	stdout, _ := ran(t, cli.ExitEnvironment, nil, "doctor", "--backend", "nccl")
	require.Regexp(t, `^nccl +missing .*CX_NCCL_LIB=.* ncclAllReduce .*libnccl.so.2`, stdout)
}

// doctor names the libraries that would multiply beside communication, of both vendors, and env has
// their versions. Measurements that do not multiply run without them.
func TestDoctorOfMultipliers(t *testing.T) {
	need.Full(t)
	standIns(t)
	stdout, _ := ran(t, cli.ExitOK, nil, "env")
	require.Contains(t, stdout, "cublaslt")
	require.Contains(t, stdout, "13.1.2")
	for _, vendor := range []struct{ backend, by string }{
		{"nccl", `cuBLASLt 13\.1\.2 \(/.*\.so`},
		{"ipc", `cuBLASLt 13\.1\.2 \(/.*\.so`},
		{"rccl", `hipBLASLt \(/.*\.so`},
	} {
		stdout, _ := ran(t, cli.ExitOK, nil, "doctor", "--backend", vendor.backend)
		require.Regexp(t, `(?m)^`+vendor.backend+` +ready .*; .*`+vendor.by, stdout)
	}
	t.Setenv("CX_CUBLASLT_LIB", "/nowhere/libcublasLt.so.13")
	stdout, _ = ran(t, cli.ExitOK, nil, "doctor", "--backend", "nccl")
	require.Regexp(t, `(?m)^nccl +note .*CX_CUBLASLT_LIB=/nowhere/libcublasLt.so.13`, stdout)
	_, stderr := benched(t, cli.ExitOK, "all_reduce", "-b", "8", "-e", "8")
	require.NotContains(t, stderr, "cuBLASLt")
}

func TestBenchWhatIsNotHere(t *testing.T) {
	need.Full(t)
	standIns(t)
	for _, tt := range []struct {
		name string
		env  map[string]string
		args string
		want string
	}{
		{"more ranks than devices", nil, "all_reduce -g 3", "3 ranks … 2"},
		{
			"no library",
			map[string]string{"CX_NCCL_LIB": "/nowhere/libnccl.so.2"},
			"all_reduce --backend nccl",
			"backend nccl … CX_NCCL_LIB=/nowhere/libnccl.so.2",
		},
		{
			"no library of the name, another backend at hand",
			map[string]string{"CX_NCCL_LIB": "/nowhere/libnccl.so.2"},
			"all_reduce",
			"CX_NCCL_LIB=/nowhere/libnccl.so.2",
		},
		{
			"a file of the name that is no library",
			map[string]string{"CX_NCCL_LIB": "/etc/hosts"},
			"all_reduce",
			"CX_NCCL_LIB=/etc/hosts … file too short",
		},
		{
			"driver does not start",
			noAMD(map[string]string{"CX_FAKE_FAIL": "cuInit=802"}),
			"all_reduce",
			"2 NVIDIA GPUs … CUDA_ERROR_SYSTEM_NOT_READY (802) … nvidia-fabricmanager",
		},
		{
			"driver counts no device",
			noAMD(map[string]string{"CUDA_VISIBLE_DEVICES": ""}),
			"all_reduce",
			"2 NVIDIA GPUs … CUDA_ERROR_NO_DEVICE (100) … CUDA_VISIBLE_DEVICES … --gpus all … --backend host",
		},
		{
			"first device lost",
			noAMD(map[string]string{"CX_FAKE_NVML_LOST": "0"}),
			"all_reduce",
			"2 NVIDIA GPUs … NVML … device 0",
		},
		{
			"unlike devices",
			noAMD(unlike),
			"all_reduce",
			"3 NVIDIA GPUs … 0, 2 NVIDIA H200; 1 NVIDIA T400 … CUDA_VISIBLE_DEVICES",
		},
		{
			"unlike devices, backend asked for",
			unlike,
			"all_reduce --backend nccl",
			"backend nccl … 0, 2 NVIDIA H200; 1 NVIDIA T400 … CUDA_VISIBLE_DEVICES",
		},
		{
			"library for the other vendor",
			map[string]string{"CX_CUDA_LIB": "/nowhere/libcuda.so.1", "CX_NVML_LIB": "/nowhere/nvml"},
			"all_reduce --backend mscclpp",
			"backend mscclpp … CX_MSCCLPP_LIB … AMD … CX_CUDA_LIB=/nowhere/libcuda.so.1",
		},
		{
			"driver named that is not there, beside the other vendor's GPUs",
			map[string]string{"CX_CUDA_LIB": "/nowhere/libcuda.so.1", "CX_NVML_LIB": "/nowhere/nvml"},
			"p2p --backend ipc",
			"backend ipc … CX_CUDA_LIB=/nowhere/libcuda.so.1",
		},
		{
			"such a driver, no backend asked for",
			map[string]string{"CX_CUDA_LIB": "/nowhere/libcuda.so.1", "CX_NVML_LIB": "/nowhere/nvml"},
			"all_reduce",
			"CX_CUDA_LIB=/nowhere/libcuda.so.1",
		},
		{
			"no GPU",
			map[string]string{"CX_CUDA_LIB": "/nowhere/libcuda.so.1", "CX_NVML_LIB": "/nowhere/nvml"},
			"all_reduce --backend nccl",
			"backend nccl … no NVIDIA GPU … CX_CUDA_LIB=/nowhere/libcuda.so.1",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			setEnv(t, tt.env)
			stdout, stderr := ran(t, cli.ExitEnvironment, nil, append([]string{"bench"}, strings.Fields(tt.args)...)...)
			require.Empty(t, stdout)
			wording.Has(t, stderr, tt.want)
			require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		})
	}
}

// A type that the library lacks is refused where it was named, and left out
// where all were asked for.
func TestBenchTypeTheLibraryLacks(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("TMPDIR", t.TempDir())
	for _, backend := range []string{"nccl", "rccl"} {
		if backend == "rccl" {
			withoutNVIDIA(t)
		}
		t.Setenv("CX_FAKE_"+strings.ToUpper(backend)+"_VERSION", "22200")
		args := []string{"all_gather", "--backend", backend, "-b", "1K", "-e", "1K", "-d"}
		r, stderr := benched(t, cli.ExitEnvironment, append(args, "f8e4m3")...)
		wording.Has(t, stderr, "refused: … "+backend+" 2.22.0 … f8e4m3")
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		require.False(t, r.Passed)
		require.Empty(t, r.Results[0].Rows)

		r, stderr = benched(t, cli.ExitOK, append(args, "all")...)
		wording.Has(t, stderr, backend+" 2.22.0 … f8e5m2")
		require.True(t, r.Passed)
		require.Len(t, r.Results, 12)
	}
}

// MI300's fp8 has another exponent bias than the data that are checked.
func TestBenchTypeTheDeviceLacks(t *testing.T) {
	need.Full(t)
	standIns(t)
	withoutNVIDIA(t)
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("CX_FAKE_RCCL_VERSION", "22809")
	_, stderr := benched(t, cli.ExitEnvironment, "all_reduce", "-b", "1K", "-e", "1K", "-d", "f8e4m3")
	wording.Has(t, stderr, "refused: … gfx942 … f8e4m3")
}

// A registration that the library took without a handle is told of.
func TestBenchWithoutARegistrationHandle(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("CX_FAKE_NCCL_NO_HANDLE", "1")
	r, stderr := benched(t, cli.ExitOK, "all_reduce", "-b", "1K", "-e", "1K", "-R", "2", "-N", "2")
	require.False(t, r.Results[0].Registered)
	require.Equal(t, 1, strings.Count(stderr, "cxrun: warning: -R: "), stderr)
	wording.Has(t, stderr, "symmetric … no handle")
}

// The check on the device finds what the one on the host finds.
func TestBenchFindsAWrongResultOnADevice(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("TMPDIR", t.TempDir())
	env := map[string]string{rank.FaultVariable: "case=*,rank=0,kind=" + runner.FaultFlip}
	stdout, _ := ran(t, cli.ExitFailed, env, "bench", "all_gather", "-b", "4K", "-e", "4K", "-d", "bfloat16", "--json")
	r := decoded[collectivebench.Report](t, stdout)
	require.Equal(t, "device", r.Results[0].CheckedBy)
	require.Equal(t, int64(2), r.OutOfBounds, "one element in each placement")
	require.False(t, r.Passed)
}

// What a library meets on one rank, at its set-up or half-way, fails the case with
// the library's code, and the ranks that wait for it end. What was finished stays:
// an operation is a timed window here, 64 are an untimed one, and a size has two of
// each.
func TestBenchWhereALibraryFails(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("CX_FAKE_DEVICES", "3")
	t.Setenv("TMPDIR", t.TempDir())
	finished := []string{"1024 out_of_place", "1024 in_place", "2048 out_of_place", "2048 in_place"}
	for _, backend := range []string{"nccl", "rccl"} {
		if backend == "rccl" {
			withoutNVIDIA(t)
		}
		for _, c := range []struct {
			name, order, at string
			rows, reasons   []string
		}{
			{"error in flight", "CX_FAKE_NCCL_ASYNC_ERROR", "1:260", finished, []string{"library-error: asynchronous error ncclRemoteError, rank 1"}},
			{"set-up of one rank", "CX_FAKE_NCCL_INIT_ERROR", "1", nil, []string{"library-error: ncclCommInitRankConfig ncclSystemError, rank 1"}},
			{"memory", "CX_FAKE_NCCL_MEMORY", "4096", nil, []string{"out-of-memory: 1065984 bytes, rank 0", "out-of-memory: 1065984 bytes, rank 1", "out-of-memory: 1065984 bytes, rank 2"}},
		} {
			t.Run(c.name+" of "+backend, func(t *testing.T) {
				t.Setenv(c.order, c.at)
				start := time.Now()
				r, stderr := benched(t, cli.ExitFailed, "all_reduce", "--backend", backend, "-b", "1K", "-e", "8K", "-f", "2", "-n", "1", "-w", "0", "-T", "600")
				require.Less(t, time.Since(start), 10*time.Minute, "the ranks that wait are not waited for")
				require.False(t, r.Passed)
				require.True(t, slices.ContainsFunc(c.reasons, func(reason string) bool { return strings.Contains(stderr, " failed: "+reason) }), stderr)
				require.NotContains(t, stderr, "warning", "that states were not read is a consequence")
				require.Equal(t, c.rows, completeRows(t, r))
				require.Equal(t, result.Failed, r.Results[0].Outcome.Status)
				require.Subset(t, resulttest.Reasons(c.reasons...), r.Results[0].Outcome.Reasons, "ranks that are slow to report are not waited for")
				requireNoRanks(t, os.Getenv("CX_FAKE_DIR"))
			})
		}
	}
}

// Ranks inside a library that hangs are ended when the time of their case is up, and
// what was finished stays. MSCCL++ can neither tell of an error of its own accord nor
// abort: its ranks wait as long. All of them wait at the same time.
func TestBenchWhereALibraryHangs(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("TMPDIR", t.TempDir())
	type hung struct {
		name, memory   string
		cmd            *exec.Cmd
		stdout, stderr bytes.Buffer
	}
	var all []*hung
	for _, c := range []struct{ backend, order string }{
		{"nccl", "CX_FAKE_NCCL_HANG"},
		{"rccl", "CX_FAKE_NCCL_HANG"},
		{"mscclpp", "CX_FAKE_NCCL_HANG"},
		{"mscclpp", "CX_FAKE_NCCL_ASYNC_ERROR"},
	} {
		h := &hung{name: c.order + " of " + c.backend, memory: fakes.MemoryDir(t)}
		h.cmd = program("bench", "--json", "all_reduce", "--backend", c.backend, "-b", "1K", "-e", "2K", "-f", "2", "-n", "1", "-w", "0", "-T", "90")
		h.cmd.Env = append(h.cmd.Env, c.order+"=1:130", "CX_FAKE_DIR="+h.memory, "CX_DEVICE_LOCKS="+h.memory)
		h.cmd.Stdout, h.cmd.Stderr = &h.stdout, &h.stderr
		require.NoError(t, h.cmd.Start())
		all = append(all, h)
	}
	for _, h := range all {
		_ = h.cmd.Wait()
		t.Run(h.name, func(t *testing.T) {
			require.Equal(t, cli.ExitFailed, h.cmd.ProcessState.ExitCode(), h.stderr.String())
			wording.Has(t, h.stderr.String(), "timeout: … 90 s")
			require.NotContains(t, h.stderr.String(), "warning", "that states were not read is a consequence")
			var r collectivebench.Report
			require.NoError(t, json.Unmarshal(h.stdout.Bytes(), &r))
			require.False(t, r.Passed)
			require.Equal(t, []string{"1024 out_of_place", "1024 in_place"}, completeRows(t, r))
			requireNoRanks(t, h.memory)
		})
	}
}

// completeRows lists the rows of a report's one case, which are complete and passed.
func completeRows(t *testing.T, r collectivebench.Report) (rows []string) {
	t.Helper()
	require.Len(t, r.Results, 1)
	for _, row := range r.Results[0].Rows {
		require.True(t, row.Complete && row.Check.Passed)
		rows = append(rows, fmt.Sprint(row.Requested, " ", row.Placement))
	}
	return rows
}

// A library that rounds, flushes or loses what exact data do not show: the timed
// buffers are right bit for bit, and the case is invalid.
func TestBenchFindsAnotherArithmetic(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("CX_FAKE_DEVICES", "3")
	t.Setenv("TMPDIR", t.TempDir())
	for _, c := range []struct{ how, precision, redop, what string }{
		{"", "bfloat16", "sum", ""},
		{"truncates", "bfloat16", "sum", "rounding"},
		{"drops", "float", "sum", "rounding"},
		{"loses-nan", "half", "sum", "nan"},
		{"flushes", "float", "min", "subnormal"},
	} {
		t.Run("library "+c.how, func(t *testing.T) {
			t.Setenv("CX_FAKE_NCCL_ARITHMETIC", c.how)
			code := cli.ExitFailed
			if c.how == "" {
				code = cli.ExitOK
			}
			r, _ := benched(t, code, "all_reduce", "-b", "8K", "-e", "8K", "-n", "2", "-d", c.precision, "-o", c.redop)
			require.Len(t, r.Results, 1)
			for _, row := range r.Results[0].Rows {
				require.True(t, row.Check.Passed, "the data of the windows do not show it")
			}
			if c.how == "" {
				require.Equal(t, result.Success, r.Results[0].Outcome.Status)
				return
			}
			require.Equal(t, result.Invalid, r.Results[0].Outcome.Status)
			require.Regexp(t, `^check-failed: arithmetic_as_declared .*`+c.what+`.*, [0-9]+ of [0-9]+ elements$`, r.Results[0].Outcome.Reasons[0])
		})
	}
}

// requireNoRanks proves that no process uses the devices with this memory.
func requireNoRanks(t *testing.T, memory string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, f := range files {
		env, err := os.ReadFile(f)
		require.False(t, err == nil && strings.Contains(string(env), memory), "%s lives", f)
	}
}
