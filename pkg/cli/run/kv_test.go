package run

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/netns"
	"github.com/collectivex/collectivex/internal/pystandin"
	"github.com/collectivex/collectivex/internal/wheels"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	transferbench "github.com/collectivex/collectivex/pkg/transfer/bench"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// passed is the report of a measurement whose rows all passed.
func passed(t *testing.T, env map[string]string, args ...string) (r transferbench.Report) {
	t.Helper()
	stdout, _ := ran(t, cli.ExitOK, env, args...)
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.True(t, r.Passed)
	return r
}

// Two processes, each with a device, move a cache over NCCL and RCCL, which is what is
// chosen where devices are, over copies of the driver, and over NIXL if it is asked for its lane
// of devices. Kernels check it.
func TestBenchKVBetweenDevices(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("TMPDIR", t.TempDir())
	args := []string{"bench", "kv", "--cache", "kv-tiny", "--isl", "64", "--page", "16", "--batch", "1,2", "--sampling", "smoke", "--json"}
	transports := map[string]string{"nccl-kv": "P2P/CUMEM", "ipc": vocab.HandleIPC, "nixl": "cuda_ipc", "rccl-kv": "P2P/IPC"}
	for _, backend := range []string{"nccl-kv", "ipc", "nixl", "rccl-kv"} {
		more := []string{"--backend", backend, "-g", "2", "--lane", vocab.LanePeer}
		if backend == "rccl-kv" {
			withoutNVIDIA(t)
			more = nil
		}
		r := passed(t, nil, append(args, more...)...)
		require.Equal(t, backend, r.Backend)
		require.Equal(t, vocab.LanePeer, r.Measurement.Lane)
		require.Equal(t, transports[backend], r.Measurement.Transport)
		require.Equal(t, "device", r.Measurement.CheckedBy)
		require.Len(t, r.Measurement.Rows, 2*3, "bulk and two batches, both ways")
	}
	stdout, _ := ran(t, cli.ExitFailed, map[string]string{"CX_FAKE_NCCL_VIA": "SHM/direct/direct"}, args[:len(args)-1]...)
	require.Contains(t, stdout, "# the data took lane shm: SHM/direct\n")
	require.Contains(t, stdout, "# INVALID: check-failed: lane shm instead of peer\n")
	ran(t, cli.ExitUsage, nil, append(args, "-g", "4")...)
	_, stderr := ran(t, cli.ExitUsage, nil, append(args, "--backend", "nixl", "--lane", vocab.LaneRDMA)...)
	wording.Has(t, stderr, "cxrun: --lane rdma … two nodes … kv-transfer")
	_, stderr = ran(t, cli.ExitEnvironment, nil, append(args, "--backend", "nixl", "--lane", vocab.LanePeer)...)
	wording.Has(t, stderr, "lane peer … backend nixl … no GPU")
	t.Setenv("CX_FAKE_DEVICES", "1")
	_, stderr = ran(t, cli.ExitEnvironment, nil, args...)
	wording.Has(t, stderr, "2 ranks … 1")
}

// Rank 1 opens the pool of rank 0 by the handle that was asked for, where devices and backend have it;
// cxrun doctor says which they have. A rank that dies with the memory mapped ends the case with one
// reason.
func TestBenchKVByHandle(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("TMPDIR", t.TempDir())
	args := []string{"bench", "kv", "-g", "2", "--cache", "kv-tiny", "--isl", "64", "--page", "16", "--batch", "1,2", "--sampling", "smoke", "--backend"}
	ids := map[string]string{}
	for _, handle := range vocab.Handles() {
		r := passed(t, nil, append(args, "ipc", "--handle", handle, "--json")...)
		require.Equal(t, handle, r.Measurement.Transport)
		require.Len(t, r.Measurement.Rows, 2*3, "bulk and two batches, both ways")
		ids[handle] = r.CaseID
	}
	require.Equal(t, strings.Replace(ids[vocab.HandleIPC], "-peer-", "-peer-vmm-", 1), ids[vocab.HandleVMM], "cases that name no handle keep their id")
	_, stderr := ran(t, cli.ExitEnvironment, nil, append(args, "nccl-kv", "--handle", "vmm")...)
	wording.Has(t, stderr, "backend nccl-kv … --handle vmm … --backend ipc")
	ran(t, cli.ExitUsage, nil, append(args, "ipc", "--handle", "fabric")...)

	stdout, _ := ran(t, cli.ExitOK, nil, "doctor", "--backend", "ipc")
	require.Regexp(t, `(?m)^ipc +ready +2 NVIDIA GPUs, CUDA 13\.0.*; transfers over peer \(ipc, vmm\)(;.*)?$`, stdout)
	without := map[string]string{"CX_FAKE_VMM_FD": "0"}
	stdout, _ = ran(t, cli.ExitOK, without, "doctor", "--backend", "ipc")
	require.Regexp(t, `(?m)^ipc +note .*handle vmm: .*attribute 103 of device 0 `, stdout)
	_, stderr = ran(t, cli.ExitEnvironment, without, append(args, "ipc", "--handle", "vmm")...)
	wording.Has(t, stderr, "refused: … attribute 103 of device 0 ")
	t.Setenv("CX_FAKE_VMM_FD", "1")
	for _, of := range []string{"0", "1"} {
		stdout, _ := ran(t, cli.ExitFailed, map[string]string{rank.FaultVariable: "rank=" + of + ",kind=kill,at=record-3"}, append(args, "ipc", "--handle", "vmm")...)
		require.Contains(t, stdout, "# FAILED: rank-died: rank "+of+" signal 9\n")
	}
	withoutNVIDIA(t)
	require.Regexp(t, `(?m)^ipc +note .*handle vmm: .*nvidia`, doctorApart(t, "ipc"))
}

// Two processes, each with a device, move a cache over UCCL and MoRI-IO, for which stand-ins stand;
// cxrun doctor says over which lane, and what is missing without them.
func TestBenchKVThroughPython(t *testing.T) {
	need.Full(t)
	for backend, library := range map[string]string{"uccl-p2p": "uccl", "mori-io": "mori"} {
		t.Run(backend, func(t *testing.T) {
			pystandin.Use(t, library)
			t.Setenv("CX_FAKE_DEVICES", "2")
			t.Setenv("CX_STANDIN_HIP", "1")
			withoutNVIDIA(t)
			t.Setenv("TMPDIR", t.TempDir())
			stdout := doctorApart(t, backend)
			require.Regexp(t, `(?m)^`+backend+` +ready +2 AMD GPUs, HIP 6\.4, Python 3\.\d+\.\d+, torch 2\.10\.0\+standin, (UCCL|MoRI) \d\.\d\.0; transfers over peer$`, stdout)
			require.Regexp(t, `(?m)^`+backend+` +note +transfers cannot use lane rdma: (cxrun runs UCCL P2P between two devices of one host|no RDMA adapter of this machine is active)$`, stdout)
			args := []string{"bench", "kv", "--backend", backend, "-g", "2", "--cache", "kv-tiny", "--isl", "64", "--page", "16", "--batch", "1,2", "--sampling", "smoke", "--json"}
			r := passed(t, nil, args...)
			require.Equal(t, vocab.LanePeer, r.Measurement.Lane)
			require.Len(t, r.Measurement.Rows, 2*3, "bulk and two batches, both ways")

			t.Setenv("PYTHONPATH", "/nowhere")
			_, stderr := ran(t, cli.ExitEnvironment, nil, args...)
			require.Contains(t, stderr, "no module "+library+" for Python 3.")
		})
	}
}

// A rank that is killed while the other one posts one burst after the other, more of them than there
// is time for, ends the case with its death as the first reason, whatever the other rank notices, and
// without a row. Libraries may notice nothing: what they have mapped stays.
func TestAKilledPeerEndsTheCase(t *testing.T) {
	need.Full(t)
	definitions := endless(t)
	for name, of := range map[string]struct{ backend, library, handle string }{
		"ipc": {"ipc", "uccl", "ipc"}, "ipc by vmm": {"ipc", "uccl", "vmm"}, "uccl-p2p": {"uccl-p2p", "uccl", "auto"}, "mori-io": {"mori-io", "mori", "auto"},
	} {
		t.Run(name, func(t *testing.T) {
			pystandin.Use(t, of.library)
			t.Setenv("CX_FAKE_DEVICES", "2")
			t.Setenv("TMPDIR", t.TempDir())
			if of.backend == "mori-io" {
				t.Setenv("CX_STANDIN_HIP", "1")
				withoutNVIDIA(t)
			}
			requireKilled(t, nil, "--definitions", definitions, "--backend", of.backend, "--handle", of.handle, "-g", "2")
		})
	}
}

// endless returns definitions whose profile smoke has more bursts than there is time for.
func endless(t *testing.T) string {
	definitions := fewSamples(t)
	profiles := filepath.Join(definitions, "sampling.yaml")
	text := readFile(t, profiles)
	for _, replaced := range [][2]string{{"warmup: 0", "warmup: 10000"}, {"sustain_ms: 1\n", "sustain_ms: 600000\n"}} {
		require.Contains(t, string(text), replaced[0])
		text = []byte(strings.ReplaceAll(string(text), replaced[0], replaced[1]))
	}
	require.NoError(t, os.WriteFile(profiles, text, 0o644))
	return definitions
}

// requireKilled kills rank 0 of a transfer after its setup, and returns the reasons. The first is its
// death.
func requireKilled(t *testing.T, env map[string]string, args ...string) result.Reasons {
	t.Helper()
	all := map[string]string{rank.FaultVariable: "rank=0,kind=kill,at=record-2"}
	maps.Copy(all, env)
	args = append(args, "--cache", "kv-tiny", "--isl", "64", "--page", "16", "--batch", "1", "--sampling", "smoke", "-T", "600", "--json")
	stdout, _ := ran(t, cli.ExitFailed, all, append([]string{"bench", "kv"}, args...)...)
	r := decoded[transferbench.Report](t, stdout)
	require.Equal(t, "rank-died: rank 0 signal 9", r.Outcome.Reasons[0].String())
	require.Empty(t, r.Measurement.Rows)
	require.Empty(t, r.Measurement.Sustained)
	return r.Outcome.Reasons
}

// Two processes move a cache over the lanes of the real NIXL, and UCX says that it used them.
func TestBenchKVOverNIXL(t *testing.T) {
	need.Full(t)
	dir := wheels.NIXL.Libraries(t)
	if !netns.Own(t) {
		return
	}
	env := map[string]string{"TMPDIR": t.TempDir(), "CX_NIXL_LIB": filepath.Join(dir, ".nixl_cu13.mesonpy.libs", "libnixl_capi.so")}
	stdout, _ := ran(t, cli.ExitOK, env, "doctor", "--backend", "nixl")
	require.Regexp(t, `(?m)^nixl +ready +processes of this host, NIXL 1\.5\.1; transfers over (vm, )?tcp$`, stdout)
	require.Regexp(t, `(?m)^nixl +note .*lane peer: no NVIDIA GPU`, stdout)
	endless := endless(t)
	for _, lane := range []string{vocab.LaneProcessVM, vocab.LaneTCP} {
		r := passed(t, env, "bench", "kv", "--backend", "nixl", "--lane", lane, "--cache", "kv-tiny", "--isl", "64", "--page", "16", "--batch", "1",
			"--sampling", "smoke", "-T", "600", "--json")
		require.Equal(t, lane, r.Measurement.Lane)
		t.Run("peer killed over "+lane, func(t *testing.T) {
			reasons := requireKilled(t, env, "--definitions", endless, "--backend", "nixl", "--lane", lane)
			require.Equal(t, "rank-died: rank 0 signal 9", reasons[0].String(), "whatever the peer reports")
		})
	}
	sweepsOver(t, env, "smoke", "nixl")
}

// A sweep says which cases it lacks because the environment decides what UCX uses.
func TestSweepWithPresetTransports(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	for suite, want := range map[string]string{
		"smoke":            "cxrun: warning: UCX_TLS=tcp: … 1 case of nixl",
		"collectives-host": "",
	} {
		out := filepath.Join(t.TempDir(), "out")
		_, stderr := ran(t, cli.ExitOK, map[string]string{"UCX_TLS": "tcp"}, "sweep", "--suite", suite, "--backend", "nixl", "--sku", "local", "--out", out)
		wording.Has(t, stderr, want)
		require.Equal(t, want != "", strings.Contains(stderr, "UCX_TLS"), stderr)
	}
}

// The same of Mooncake, whose library is here and cannot be used.
func TestSweepWithHeldMooncake(t *testing.T) {
	pystandin.Use(t)
	site := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(site, "mooncake"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(site, "mooncake", "__init__.py"), nil, 0o644))
	env := map[string]string{"PYTHONPATH": site, "MC_FORCE_HCA": "1"}
	_, stderr := ran(t, cli.ExitOK, env, "sweep", "--suite", "kv-transfer", "--backend", "mooncake", "--sku", "local", "--out", filepath.Join(t.TempDir(), "out"))
	wording.Has(t, stderr, "cxrun: warning: MC_FORCE_HCA=1: … 3 cases of mooncake")
	require.NotContains(t, stderr, "all network interfaces", "no rank of Mooncake runs")
}

// sweepsOver shows that a sweep of the suite has the backend, whose library is here, over TCP.
func sweepsOver(t *testing.T, env map[string]string, suite, backend string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	ran(t, cli.ExitOK, env, "sweep", "--definitions", fewSamples(t), "--suite", suite, "--backend", backend, "--case", "local-"+backend+"-kv-tiny-tcp-xfer-ep2-paged-bf16", "--out", out)
	docs := sweptDocuments(t, out)
	require.Len(t, docs, 1)
	for _, d := range docs {
		require.Equal(t, result.Success, d.Head().Outcome.Status)
		require.Equal(t, vocab.LaneTCP, d.(*transfer.Document).Measurement.Lane)
	}
}

// Two processes move a cache over the real Mooncake, and the kernel says that it used TCP.
func TestBenchKVOverMooncake(t *testing.T) {
	need.Full(t)
	t.Setenv("PATH", pystandin.Path(t))
	packages := wheels.Mooncake(t)
	if !netns.Own(t) {
		return
	}
	env := map[string]string{"TMPDIR": t.TempDir(), "PYTHONPATH": packages}
	stdout, _ := ran(t, cli.ExitOK, env, "doctor", "--backend", "mooncake")
	require.Regexp(t, `(?m)^mooncake +ready +processes of this host, Python 3\.\d+\.\d+, Mooncake 0\.3\.13\.post1; transfers over tcp$`, stdout)
	require.Regexp(t, `(?m)^mooncake +note .*lane peer: .*nvlink_intra `, stdout)
	args := []string{"bench", "kv", "--backend", "mooncake", "--cache", "kv-tiny", "--isl", "64", "--page", "16", "--batch", "1,2", "--sampling", "smoke", "-T", "600", "--json"}
	r := passed(t, env, args...)
	require.Equal(t, vocab.LaneTCP, r.Measurement.Lane)
	_, stderr := ran(t, cli.ExitEnvironment, env, append(args, "--lane", vocab.LanePeer)...)
	require.Regexp(t, `^cxrun: backend mooncake .*lane peer: .*nvlink_intra .*\n$`, stderr)
	sweepsOver(t, env, "kv-transfer", "mooncake")
	_, stderr = ran(t, cli.ExitOK, env, args...)
	wording.Has(t, stderr, "cxrun: warning: … Mooncake … all network interfaces")

	env["PYTHONPATH"] = ""
	_, stderr = ran(t, cli.ExitEnvironment, env, args...)
	require.Contains(t, stderr, "backend mooncake cannot run here: no module mooncake for Python 3.")
	out := filepath.Join(t.TempDir(), "out")
	_, stderr = ran(t, cli.ExitOK, env, "sweep", "--suite", "kv-transfer", "--backend", "mooncake", "--out", out)
	require.Contains(t, stderr, "no case matches the filters")
	require.NoDirExists(t, out, "it is not asked of a machine without it")
}

// Two processes move a cache over each lane of the host. A planted fault and a threshold
// that is missed end the command with 1, and what nobody can ask for with 2.
func TestBenchKV(t *testing.T) {
	need.Full(t)
	t.Setenv("TMPDIR", t.TempDir())
	args := []string{"bench", "kv", "--backend", "host", "--cache", "kv-tiny", "--isl", "64", "--page", "16", "--batch", "1,2", "--sampling", "smoke", "-T", "600"}
	for _, lane := range []string{vocab.LaneSharedMemory, vocab.LaneProcessVM} {
		code, stdout, stderr := cxrun(t, nil, append(args, "--json", "--lane", lane)...)
		if code == cli.ExitEnvironment && lane == vocab.LaneProcessVM {
			require.Contains(t, stderr, "process_vm", "a sandbox refuses it, and the command says so")
			continue
		}
		require.Equal(t, cli.ExitOK, code, stderr)
		require.NotRegexp(t, `"(prepare|post|wait|release)_p50":[0-9]*\.[0-9]{7}`, stdout, "milliseconds have six decimals")
		r := decoded[transferbench.Report](t, stdout)
		require.True(t, r.Passed)
		require.Subset(t, r.Arguments, []string{"--batch=1,2", "--isl=64"}, "as a user can give them")
		require.Equal(t, "local-host-kv-tiny-"+lane+"-xfer-ep2-paged-bf16", r.CaseID)
		require.Equal(t, lane, r.Measurement.Lane)
		require.Len(t, r.Measurement.Rows, 2*3, "bulk and two batches, both ways")
	}

	_, stderr := ran(t, cli.ExitFailed, nil, append(args, "--ops", "push", "--min-gbps", "1e9")...)
	require.Contains(t, stderr, "push bulk 64 tokens, batch 1: ")
	_, stderr = ran(t, cli.ExitFailed, nil, append(args, "--ops", "push", "--min-gbps", "294912=0.000001", "--max-time", "294912=0.000001")...)
	require.Regexp(t, `(?m)^cxrun: push bulk 64 tokens, batch 1: [0-9.]+ us, and --max-time is 1e-06$`, stderr)
	require.NotContains(t, stderr, "GB/s, and")
	_, stderr = ran(t, cli.ExitFailed, nil, append(args, "--batch", "3000", "--ops", "push", "--min-gbps", "0.000001")...) // a point without a figure misses its threshold
	require.Contains(t, stderr, "cxrun: 64 tokens, pages of 16, batch 3000 was not measured, and --min-gbps is 1e-06\n")
	_, stderr = ran(t, cli.ExitEnvironment, nil, "bench", "kv", "--backend", "host", "--isl", "64", "--batch", "3000")
	wording.Has(t, stderr, "192000 tokens in 3000 requests … 131072")
	for flags, want := range map[string]string{
		"--min-gbps 294912=1,123=1": "cxrun: --min-gbps 123=1: … 294912 or 589824 bytes",
		"--max-time 64M=1":          "cxrun: --max-time 67108864=1: … 294912 or 589824 bytes",
		"--min-gbps 0":              "cxrun: --min-gbps 0: ",
		"--min-gbps=-1":             "cxrun: --min-gbps -1: ",
		"--max-time 294912=0":       "cxrun: --max-time 294912=0: ",
	} {
		stdout, stderr := ran(t, cli.ExitUsage, nil, append(args, strings.Fields(flags)...)...)
		wording.Has(t, stderr, want)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		require.Empty(t, stdout)
	}
	for flag, value := range map[string]string{"--cache": "kv-mlaa", "--isl": "64,64", "--page": "0", "--ops": "pull,pull", "--lane": "udp", "--min-gbps": "nan"} {
		ran(t, cli.ExitUsage, nil, append(args, flag, value)...)
	}

	stdout, _ := ran(t, cli.ExitOK, nil, "bench", "kv", "--backend", "host", "--block", "4K,64K", "--total", "128K", "--ops", "push", "--batch", "1", "--sampling", "smoke", "--min-gbps", "128K=0.000001")
	wording.Has(t, stdout, "4096 bytes, blocks paged, over shm on ")
	require.Regexp(t, `(?m)^  push +32 +4K +1 +32 +131072 .* OK$`, stdout)
	require.Regexp(t, `(?m)^  push +32 +64K +1 +2 +131072 .* OK$`, stdout)
	for flags, want := range map[string]string{
		"--block 4K --isl 128":      "--block … --isl",
		"--total 4K":                "cxrun: --total … --block",
		"--block 4K,6K":             "cxrun: --block 6K: … 4K",
		"--block 4K,4K":             "cxrun: --block 4K: ",
		"--block 4K,2K":             "cxrun: --block 2K: ",
		"--block 4K,16K,8K":         "cxrun: --block 8K: ",
		"--block 12 --total 24":     "cxrun: --block 12: … 8 bytes",
		"--block 0":                 "cxrun: --block 0: … 8 bytes",
		"--block 64K --total 96K":   "cxrun: --block 64K: … --total 96K",
		"--block 4K --total 0":      "cxrun: --total 0: ",
		"--block 8,64K --total 64M": "cxrun: --block 8: --total 64M … 1048576",
		"--lane rdma":               "cxrun: --lane rdma … two nodes … kv-transfer",
		"--lane mnnvl":              "cxrun: --lane mnnvl … two nodes … kv-transfer",
		"--block x":                 "--block: … \"x\"",
		"--block 4K --total x":      "--total: … \"x\"",
		"--block=":                  "--block is empty",
	} {
		_, stderr := ran(t, cli.ExitUsage, nil, append([]string{"bench", "kv", "--backend", "host"}, strings.Fields(flags)...)...)
		wording.Has(t, stderr, want)
	}
	stdout, stderr = ran(t, cli.ExitFailed, nil, "bench", "kv", "--backend", "host", "--block", "8", "--total", "64", "--ops", "push", "--batch", "1", "--sampling", "smoke", "--min-gbps", "1e9")
	require.Equal(t, 1, strings.Count(stdout, "# push of 8 bytes: "))
	wording.Has(t, stderr, "push paged 64 bytes … batch 1: ")
	require.Contains(t, stderr, "cxrun: push bulk 64 bytes, batch 1: ")
	_, stderr = ran(t, cli.ExitEnvironment, nil, "bench", "kv", "--backend", "host", "--block", "1G", "--total", "500G", "--batch", "1")
	wording.Has(t, stderr, "cxrun: --total 500G: … 536870912000 bytes … 34359738368 … --batch")
	for _, size := range []string{"131072G", "140737488355456"} { // times the requests, more than 63 bits hold
		_, stderr = ran(t, cli.ExitEnvironment, nil, "bench", "kv", "--backend", "host", "--block", size, "--total", size, "--batch", "131072")
		wording.Has(t, stderr, "cxrun: --total "+size+": … 9223372036854775807 bytes … 34359738368 … --batch")
	}
	_, stderr = ran(t, cli.ExitEnvironment, nil, "bench", "kv", "--backend", "host", "--block", "16", "--total", "16M", "--batch", "4")
	wording.Has(t, stderr, "cxrun: --total 16M: … 4194304 blocks in 4 requests … 131072 … --batch")

	for page, want := range map[string]string{
		"kv-dsv4-layers 4": "--page 4: … kv-dsv4-layers: … pages of 8 tokens",
		"kv-dsv4 16":       "--page 16: … kv-dsv4: … pages of 256 tokens",
	} {
		cache, tokens, _ := strings.Cut(page, " ")
		_, stderr := ran(t, cli.ExitUsage, nil, "bench", "kv", "--backend", "host", "--cache", cache, "--page", tokens)
		wording.Has(t, stderr, want)
	}

	_, stderr = ran(t, cli.ExitEnvironment, nil, append(args, "--lane", "tcp")...)
	wording.Has(t, stderr, "lane tcp … shm, vm; … --backend nixl or mooncake")

	_, stderr = ran(t, cli.ExitEnvironment, map[string]string{"CX_NIXL_LIB": "/nowhere/libnixl_capi.so"}, append(args, "--backend", "nixl")...)
	wording.Has(t, stderr, "backend nixl … CX_NIXL_LIB=/nowhere/libnixl_capi.so: ")

	for fault, want := range map[string]string{
		"kind=ones":            "no effect: … flip-bit, half-block, ",
		"kind=stale":           "rank 0 … pull … rank 1",
		"kind=source,at=chain": `no effect: … "chain" … at=`,
	} {
		_, stderr := ran(t, cli.ExitUsage, map[string]string{rank.FaultVariable: "rank=0," + fault}, append(args, "--ops", "pull")...)
		wording.Has(t, stderr, want)
	}

	env := map[string]string{rank.FaultVariable: "case=*,rank=1,kind=half-block"}
	stdout, _ = ran(t, cli.ExitFailed, env, append(args, "--ops", "pull")...)
	require.Regexp(t, `(?m)^  pull +64 .* FAILED$`, stdout)
	require.Regexp(t, `(?m)^# pull paged 64 tokens, pages of 16, batch 1: torn: \d+ of \d+ words .* byte \d+ of the pool of rank 1, trial 0, burst 0$`, stdout)
	require.Regexp(t, `(?m)^# INVALID: check-failed: torn, \d+ words$`, stdout)
}
