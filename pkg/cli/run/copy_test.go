package run

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/copies"
	copybench "github.com/collectivex/collectivex/pkg/copies/bench"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/table"
)

// The copy engines of both vendors' devices make the copies of one device and of two, by
// both clocks; kernels check them.
func TestBenchCopyOnDevices(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("TMPDIR", t.TempDir())
	args := []string{"bench", "copy", "-b", "4K", "-e", "64K", "-f", "16", "--streams", "1,2", "--sampling", "smoke", "--json"}
	for _, without := range []bool{false, true} {
		if without {
			withoutNVIDIA(t)
		}
		for _, tests := range [][]string{nil, {"device_to_device_memcpy_read_ce", "device_to_device_bidirectional_memcpy_write_ce"}} {
			stdout, _ := ran(t, cli.ExitOK, nil, append(args, tests...)...)
			var r copybench.Report
			require.NoError(t, json.Unmarshal([]byte(stdout), &r))
			require.True(t, r.Passed)
			require.Equal(t, "ce", r.Backend)
			want := 5
			if tests != nil {
				want = len(tests)
			}
			require.Len(t, r.Cases, want)
			for _, c := range r.Cases {
				require.Equal(t, "device", c.Measurement.CheckedBy)
				require.Len(t, c.Measurement.Rows, 2*2, "two sizes on one and two streams")
				for _, row := range c.Measurement.Rows {
					require.NotNil(t, row.Device)
					require.NotNil(t, row.Host)
				}
			}
		}
	}
}

// Copies in one direction run beside a victim, whose figures have columns of their own. Its
// slowdown is held against a threshold, which a slowdown that was not measured misses, too.
func TestBenchCopyVictim(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("TMPDIR", t.TempDir())
	args := []string{"bench", "copy", "-b", "4K", "-e", "4K", "--sampling", "smoke", "--victim"}
	stdout, _ := ran(t, cli.ExitOK, nil, append(args, "--json")...)
	var r copybench.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Len(t, r.Cases, 3, "the tests of one device in one direction")
	for _, c := range r.Cases {
		require.True(t, c.Victim)
		require.Positive(t, c.Measurement.Rows[0].Victim.Units)
	}

	stdout, stderr := ran(t, cli.ExitFailed, nil, append(args, "device_local_copy", "--max-slowdown", "1")...)
	require.Regexp(t, `(?m)^# +bytes str\. alone us beside us covered slowdown beside us covered slowdown$`, stdout)
	require.Regexp(t, `(?m)^ +4096 +1 +[0-9.]+ +[0-9.]+ +[0-9.]+ +([0-9.]+|-) +[0-9.]+ +[0-9.]+ +([0-9.]+|-)$`, stdout)
	wording.Has(t, stderr, "device_local_copy, 4096 bytes on 1 stream: … --max-slowdown")

	stdout, _ = ran(t, cli.ExitFailed, map[string]string{rank.FaultVariable: "rank=0,kind=half-victim"}, append(args, "device_local_copy")...)
	require.Regexp(t, `(?m)^# INVALID: check-failed: .*victim .*\d+ units`, stdout)
	for why, lacking := range map[string][]string{
		"host_to_device_bidirectional_memcpy_ce … victim": {"host_to_device_bidirectional_memcpy_ce"},
		"victim … page-locked":                            {"device_to_host_memcpy_ce", "--host-memory", copies.Pageable},
	} {
		_, stderr := ran(t, cli.ExitEnvironment, nil, append(args, lacking...)...)
		wording.Has(t, stderr, why)
	}
}

// A kernel makes the copies of the tests that end with _sm, and copy engines make no others.
func TestBenchCopyByKernel(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("TMPDIR", t.TempDir())
	args := []string{"bench", "copy", "-b", "4K", "-e", "4K", "--sampling", "smoke", "--json"}
	stdout, _ := ran(t, cli.ExitOK, nil, append(args, "--backend", "sm")...)
	var r copybench.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Len(t, r.Cases, 4, "either way, and both")
	for want, lacking := range map[string][]string{
		"backend ce … host_to_device_memcpy_sm … --backend sm\n":         {"host_to_device_memcpy_sm"},
		"backend sm … device_to_host_memcpy_ce … --backend ce or sdma\n": {"device_to_host_memcpy_ce", "--backend", "sm"},
		"backend sm … device_local_copy … --backend ce\n":                {"device_local_copy", "--backend", "sm"},
		"backend host … device_to_host_memcpy_sm … --backend sm\n":       {"device_to_host_memcpy_sm", "--backend", "host"},
	} {
		_, stderr := ran(t, cli.ExitEnvironment, nil, append(args, lacking...)...)
		wording.Has(t, stderr, want)
	}
}

// Of three devices, a slow pair is named, by copies and by messages: in the table and in JSON.
func TestBenchMatrices(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("CX_FAKE_DEVICES", "3")
	t.Setenv("CX_FAKE_SLOW", "2:0:100000")
	t.Setenv("CX_FAKE_NCCL_SLOW", "2:0:100000")
	t.Setenv("TMPDIR", t.TempDir())
	for _, line := range []string{"copy --matrix --sampling smoke device_to_device_memcpy_write_ce", "p2p -n 4"} {
		args := append(append([]string{"bench"}, strings.Fields(line)...), "-b", "64K", "-e", "64K")
		stdout, _ := ran(t, cli.ExitOK, nil, args...)
		require.Contains(t, stdout, "\n#   SLOW rank 2 to 0: ")
		stdout, _ = ran(t, cli.ExitOK, nil, append(args, "--json")...)
		type matrix struct {
			Values [][]*float64 `json:"values"`
			Slow   []table.Slow `json:"slow_pairs"`
		}
		var r struct {
			Matrices []matrix
			Cases    []struct{ Matrices []matrix }
		}
		require.NoError(t, json.Unmarshal([]byte(stdout), &r))
		for _, c := range r.Cases {
			r.Matrices = append(r.Matrices, c.Matrices...)
		}
		require.Len(t, r.Matrices, 1)
		require.Len(t, r.Matrices[0].Values, 3)
		require.True(t, slices.ContainsFunc(r.Matrices[0].Slow, func(p table.Slow) bool { return p.Src == 2 && p.Dst == 0 }),
			"%v; on a loaded machine, others may be slower", r.Matrices[0].Slow)
	}
	_, stderr := ran(t, cli.ExitFailed, map[string]string{rank.FaultVariable: "rank=1,kind=flip-bit"}, "bench", "copy", "all_to_one_read_ce", "-b", "4K", "-e", "4K", "--sampling", "smoke")
	wording.Has(t, stderr, "check-failed: corrupted")
}

// Engines that are named make the copies of one AMD device and of two. They read no memory of
// another device, which is left to that one's engines.
func TestBenchCopyOnEngines(t *testing.T) {
	need.Full(t)
	standIns(t)
	withoutNVIDIA(t)
	t.Setenv("TMPDIR", t.TempDir())
	args := []string{"bench", "copy", "--backend", "sdma", "-b", "4K", "-e", "4K", "--sampling", "smoke"}
	for want, tests := range map[int][]string{4: nil, 1: {"device_to_device_memcpy_write_ce"}} {
		stdout, _ := ran(t, cli.ExitOK, nil, append(append(args, "--json"), tests...)...)
		var r copybench.Report
		require.NoError(t, json.Unmarshal([]byte(stdout), &r))
		require.Len(t, r.Cases, want)
		for _, c := range r.Cases {
			require.NotEmpty(t, c.Measurement.Engines)
			require.NotNil(t, c.Measurement.Rows[0].Device)
		}
	}
	for why, lacking := range map[string][]string{
		"backend sdma … device_to_device_memcpy_read_ce … --backend ce\n": {"device_to_device_memcpy_read_ce"},
		"backend sdma … host_to_device_memcpy_sm … --backend sm\n":        {"host_to_device_memcpy_sm"},
		"backend sdma … victim": {"device_to_host_memcpy_ce", "--victim"},
	} {
		_, stderr := ran(t, cli.ExitEnvironment, nil, append(args, lacking...)...)
		wording.Has(t, stderr, why)
	}
}

// doctor names the HSA runtime, without which sdma lacks its engines.
func TestDoctorOfCopyEngines(t *testing.T) {
	need.Full(t)
	standIns(t)
	stdout, _ := ran(t, cli.ExitOK, nil, "doctor", "--backend", "sdma")
	require.Regexp(t, `(?m)^sdma +ready +2 AMD GPUs, HIP 6\.4, HSA 1\.1`, stdout)
	t.Setenv("CX_HSA_LIB", "/nowhere/libhsa-runtime64.so.1")
	stdout, _ = ran(t, cli.ExitEnvironment, nil, "doctor", "--backend", "sdma,ce")
	require.Regexp(t, `(?m)^sdma +missing .*CX_HSA_LIB=/nowhere/libhsa-runtime64.so.1`, stdout)
	require.Regexp(t, `(?m)^ce +ready `, stdout)
}

// A rank copies between memories of the host. What nobody can ask for ends the command with
// 2, what the backend does not have with 3, and a wrong word or a slow row with 1.
func TestBenchCopy(t *testing.T) {
	need.Full(t)
	t.Setenv("TMPDIR", t.TempDir())
	args := []string{"bench", "copy", "--backend", "host", "-b", "4K", "-e", "64K", "-f", "16", "--sampling", "smoke"}
	stdout, _ := ran(t, cli.ExitOK, nil, append(args, "host_to_device_memcpy_ce")...)
	require.Regexp(t, `(?m)^# host memory pageable$`, stdout)
	require.Regexp(t, `(?m)^ +65536 +1 +1 +- +- +- +[0-9.]+ +[0-9.]+ +- OK$`, stdout, "no device's clock on a host")

	_, stderr := ran(t, cli.ExitFailed, nil, append(args, "device_local_copy", "--min-gbps", "1e9")...)
	require.Contains(t, stderr, "device_local_copy, 4096 bytes on 1 stream: ")

	_, stderr = ran(t, cli.ExitFailed, nil, append(args, "device_local_copy", "--min-gbps", "64K=1e9", "--max-time", "4K=1e9,64K=0.001")...)
	require.NotContains(t, stderr, "4096 bytes on 1 stream: ")
	require.Regexp(t, `(?m)^cxrun: device_local_copy, 65536 bytes on 1 stream: [0-9.]+ GB/s, and --min-gbps is 1e\+09$`, stderr)
	require.Regexp(t, `(?m)^cxrun: device_local_copy, 65536 bytes on 1 stream: [0-9.]+ us, and --max-time is 0.001$`, stderr)

	for _, wrong := range [][]string{
		{"host_to_device"},
		{"--min-gbps", "1M=1"},
		{"device_local_copy", "device_local_copy"},
		{"device_local_copy", "device_to_device_memcpy_read_ce"},
		{"--streams", "2,1"},
		{"--host-memory", "fast"},
		{"--submit", "all"},
		{"--page", "x"},
		{"--page", "1000"},
		{"--page", "128K"},
		{"-b", "3", "-e", "3"},
		{"-b", "1K", "-e", "2K", "-f", "1", "-i", "100"},
		{"--host-memory", ""},
		{"--host-memory", "pageable,pageable"},
		{"--host-memory", "pageable", "device_local_copy"},
		{"-b", "0"},
		{"--sampling", "slow"},
		{"--min-gbps", "nan"},
		{"--min-gbps", "-1"},
		{"--min-gbps", "inf"},
		{"--max-slowdown", "1.1"},
		{"--victim", "--max-slowdown", "0.9"},
		{"--victim", "--max-slowdown", "nan"},
	} {
		_, stderr := ran(t, cli.ExitUsage, nil, append(args, wrong...)...)
		require.NotContains(t, stderr, "pages of 0 bytes")
	}
	for want, odd := range map[string][]string{
		"1 bytes … 8-byte … -b":              {"-b", "1", "-e", "1"},
		"1124 bytes … 8-byte … -i":           {"-b", "1K", "-e", "2K", "-f", "1", "-i", "100"},
		"4096 bytes … 12 bytes … --page":     {"--page", "12"},
		"4096 bytes … 131072 bytes … --page": {"--page", "128K"},
		"4096 bytes … 3 streams … --streams": {"--streams", "3"},
		"--max-slowdown … --victim":          {"--max-slowdown", "1.1"},
		"--min-gbps -1: ":                    {"--min-gbps", "-1"},
	} {
		_, stderr := ran(t, cli.ExitUsage, nil, append(args, odd...)...)
		wording.Has(t, stderr, "cxrun: … "+want)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
	for want, lacking := range map[string][]string{
		"host_to_device_bidirectional_memcpy_ce … page-locked": {"host_to_device_bidirectional_memcpy_ce"},
		"backend host … 1 stream":                              {"--streams", "1,2"},
		"backend host … batch … loop":                          {"--submit", "batch"},
		"pinned … pageable":                                    {"--host-memory", copies.Pinned},
		"backend host … victim":                                {"--victim", "device_local_copy"},
	} {
		_, stderr := ran(t, cli.ExitEnvironment, nil, append(args, lacking...)...)
		wording.Has(t, stderr, want)
	}
	for _, sizes := range [][]string{{"-b", "1000G", "-e", "1000G"}, {"-b", "1M", "-e", "1000G", "-f", "4"}} {
		stdout, stderr := ran(t, cli.ExitEnvironment, nil, append([]string{"bench", "copy", "--backend", "host"}, sizes...)...)
		require.Empty(t, stdout, "nothing is measured")
		require.Regexp(t, `^cxrun: -e 1000G: .* \d+G .* \d+[MG]\n$`, stderr, "one reason for all tests")
	}
	_, stdout, _ = cxrun(t, nil, "bench", "copy", "--help")
	require.Contains(t, stdout, "(default 1)")
	require.NotContains(t, stdout, "(default [")

	dir := t.TempDir()
	kept, figures := filepath.Join(dir, "out"), filepath.Join(dir, "figures")
	ran(t, cli.ExitFailed, map[string]string{rank.FaultVariable: "rank=0,kind=exit"}, append(args, "device_local_copy", "--out", kept)...)
	_, _, stderr = cxrun(t, nil, "report", "--in", kept, "-o", filepath.Join(dir, "report.html"), "--figures", figures)
	wording.Has(t, stderr, "cxrun: --figures: … "+figures)
	require.NoDirExists(t, figures)

	for fault, want := range map[string]string{
		"kind=skip-step":          "no effect: … flip-bit, half-block, ",
		"kind=no-send":            "no effect: … flip-bit",
		"kind=late":               "no effect: … flip-bit",
		"kind=kill,at=half":       `"half" … kill … record-N`,
		"kind=half-victim":        "no effect: … victim",
		"kind=flip-bit,at=record": `no effect: … "record" … at=`,
	} {
		_, stderr := ran(t, cli.ExitUsage, map[string]string{rank.FaultVariable: "rank=0," + fault}, append(args, "device_local_copy")...)
		wording.Has(t, stderr, want)
	}
	_, stderr = ran(t, cli.ExitUsage, map[string]string{rank.FaultVariable: "rank=0,kind=flip-bit"}, append(args, "device_to_device_memcpy_read_ce")...)
	wording.Has(t, stderr, "rank 0 … device_to_device_memcpy_read_ce … rank 1")
	_, stderr = ran(t, cli.ExitFailed, map[string]string{rank.FaultVariable: "rank=0,kind=flip-bit"}, append(args, "device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce")...)
	wording.Has(t, stderr, "refused: … flip-bit … rank 0 … device_to_device_memcpy_read_ce … rank 1")
	require.Contains(t, stderr, "check-failed: ")
	_, stderr = ran(t, cli.ExitFailed, map[string]string{rank.FaultVariable: "rank=0,kind=flip-bit"}, "sweep", "--suite", "copy-core", "--definitions", fewSamples(t), "--out", filepath.Join(dir, "sweep"),
		"--case", "local-host-device-to-device-memcpy-read-ce-loop,local-host-device-to-device-memcpy-write-ce-loop")
	wording.Has(t, stderr, "refused: … flip-bit … rank 0; logs in ")

	env := map[string]string{rank.FaultVariable: "case=*,rank=0,kind=half-block"}
	stdout, _ = ran(t, cli.ExitFailed, env, append(args, "device_to_host_memcpy_ce", "--page", "1K")...)
	require.Regexp(t, `(?m)^# 4096 bytes on 1 stream: torn: \d+ of \d+ words .* byte \d+ of the destination$`, stdout)
	require.Regexp(t, `(?m)^# INVALID: check-failed: torn, \d+ words$`, stdout)
}
