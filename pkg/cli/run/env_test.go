package run

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/golden"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/preflight"
	"github.com/collectivex/collectivex/pkg/provenance"
)

func described() preflight.Description {
	d := preflight.Description{
		Program: "cxrun v1",
		Host:    map[string]string{"arch": "amd64", "cpu_model": "Some CPU", "kernel": "6.8.0"},
		Machine: inventory.Machine{
			Drivers: []inventory.Driver{{Vendor: "nvidia", Version: "580.95.05", Runtime: "CUDA 13.0"}},
			NICs: []inventory.NIC{
				{Adapter: "MT4129", LinkLayer: "InfiniBand", Rate: "400 Gb/sec (4X NDR)", Active: true, Firmware: "28.39.3560", Count: 8},
				{Adapter: "MT4125", LinkLayer: "Ethernet", Rate: "100 Gb/sec (4X EDR)", Count: 1},
			},
			Undriven: map[string]int{"amd": 1},
			Warnings: []string{"NVML does not open device 3: error 15"},
		},
		Libraries:   []backend.Library{{Kind: "cuda", Version: "CUDA 13.0", SOName: "libcuda.so.1", BuildID: "0123abcd"}},
		Backends:    []string{"nccl", "host"},
		Environment: map[string]string{"NCCL_DEBUG": "INFO"},
	}
	for i := range 3 {
		d.GPUs = append(d.GPUs, inventory.GPU{
			Index: i, Vendor: "nvidia", Product: "NVIDIA H200", Arch: "sm_90", MemoryBytes: 150_000_000_000, NUMANode: i / 2,
			PCIe: "gen5 x16", ECC: "on", Partition: "no-mig", PowerLimitW: 700, MaxSMMHz: 1980, MaxMemMHz: 3201,
		})
		d.State.GPUs = append(d.State.GPUs, inventory.GPUState{Index: i, Vendor: "nvidia", SMMHz: 345, MemMHz: 3201, TemperatureC: 30 + i, PowerW: 75})
	}
	d.State.GPUs[2].Throttle = []string{"sw-power-cap", "hw-slowdown"}
	d.Links = []inventory.Link{
		{Vendor: "nvidia", A: 0, B: 1, Kind: "nvlink", Width: 18},
		{Vendor: "nvidia", A: 0, B: 2, Kind: "sys"},
		{Vendor: "nvidia", A: 1, B: 2, Kind: "sys"},
	}
	return d
}

func TestEnvText(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, printDescription(&out, described()))
	golden.Equal(t, "testdata/env.txt", out.String())

	d := described()
	d.Links[1], d.Links[2] = d.Links[0], d.Links[0]
	out.Reset()
	require.NoError(t, printDescription(&out, d))
	require.Contains(t, out.String(), "links     every pair: nvlink ×18\n")
}

func TestEnvOfThisMachine(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("NCCL_SOCKET_IFNAME", "eth0")
	t.Setenv("NCCL_COMM_ID", "10.1.2.3:4567")
	stdout, stderr := ran(t, cli.ExitOK, nil, "env", "--json")
	require.Empty(t, stderr)
	d := decoded[preflight.Description](t, stdout)
	require.Equal(t, "cxrun devel (source dev)", d.Program)
	require.Contains(t, d.Backends, "host")
	require.NotEmpty(t, d.Host["kernel"])
	require.Equal(t, "eth0", d.Environment["NCCL_SOCKET_IFNAME"])
	require.Equal(t, provenance.Withheld, d.Environment["NCCL_COMM_ID"])
	require.NotContains(t, stdout, "10.1.2.3")
	require.NotContains(t, stdout, "/cx-fakes", "paths stay here")

	stdout, _ = ran(t, cli.ExitOK, nil, "env")
	require.Regexp(t, `(?m)^library +cuda +CUDA 13\.0 +libcuda\.so\.1`, stdout)
	require.Regexp(t, `(?m)^gpu +nvidia 0 +CX Fake NVIDIA GPU +sm_90`, stdout)
}

func TestDoctor(t *testing.T) {
	for _, name := range []string{"CX_CUDA_LIB", "CX_HIP_LIB", "CX_NCCL_LIB", "CX_RCCL_LIB", "CX_MSCCLPP_LIB", "CX_NCCL_EP_LIB", "CX_NVRTC_LIB", "CX_HIPRTC_LIB"} {
		t.Setenv(name, "/nowhere/lib.so")
	}
	lanes := regexp.MustCompile(`shm(, vm)?\b`)
	for _, tc := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"host", []string{"--backend", "host"}, cli.ExitOK, "host  ready … LANES", ""},
		{"host as JSON", []string{"--backend", "host", "--json"}, cli.ExitOK, `[
  {
    "backend": "host",
    "state": "ready",
    "text": " … LANES"
  }
]
`, ""},
		{"one that cannot", []string{"--backend", "host,flashinfer-ep"}, cli.ExitEnvironment, "", "cxrun: this machine cannot run flashinfer-ep\n"},
		{"nobody knows it", []string{"--backend", "ncll"}, cli.ExitUsage, "", "cxrun: … \"ncll\" … \"nccl\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := cxrun(t, nil, append([]string{"doctor"}, tc.args...)...)
			require.Equal(t, tc.code, code)
			wording.Has(t, stderr, tc.stderr)
			require.Equal(t, tc.stderr == "", stderr == "", stderr)
			stdout = lanes.ReplaceAllString(stdout, "LANES")
			if tc.stdout != "" && !strings.Contains(stdout, "cannot use lane vm") { // which the machine decides
				wording.Has(t, stdout, tc.stdout)
			}
		})
	}
	code, stdout, stderr := cxrun(t, nil, "doctor")
	require.Equal(t, cli.ExitOK, code, "asking for nothing in particular is no failure: %s", stderr)
	require.Regexp(t, `(?m)^host +ready `, stdout)
	require.Regexp(t, `(?m)missing .*\bnccl\b`, stdout)
}
