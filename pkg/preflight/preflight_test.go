package preflight_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/netns"
	"github.com/collectivex/collectivex/internal/pystandin"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/collective/nccl"
	"github.com/collectivex/collectivex/pkg/copies/sdma"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/ep/a2a"
	"github.com/collectivex/collectivex/pkg/ep/ncclep"
	eppython "github.com/collectivex/collectivex/pkg/ep/python"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/preflight"
	"github.com/collectivex/collectivex/pkg/simulation"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/nixl"
	transferpython "github.com/collectivex/collectivex/pkg/transfer/python"
	"github.com/collectivex/collectivex/pkg/vocab"
)

var backends = []catalog.Backend{
	{Name: "nccl", Vendors: []string{"nvidia"}},
	{Name: "rccl", Vendors: []string{"amd"}},
	{Name: "a2a", Vendors: []string{"nvidia", "amd"}},
	{Name: "host", Vendors: []string{"host"}},
	{Name: "elsewhere", Vendors: []string{"nvidia"}},
	{Name: "mscclpp", Vendors: []string{"nvidia", "amd"}},
}

// known are all backends of the catalogs of these tests but elsewhere.
var known = append(backend.Registry{
	{Name: "host"}, {Name: "simulator"}, nccl.NCCL, nccl.RCCL, nccl.MSCCLPP, a2a.Backend, nixl.Backend, transferpython.Mooncake, ncclep.Backend, sdma.Backend,
}, eppython.Backends...)

// libraries are those of this machine.
func libraries() map[string]backend.Library { return preflight.Libraries(known.Needs()) }

// nowhere is the error of a library that was not found.
type nowhere string

func (e nowhere) Error() string        { return string(e) }
func (e nowhere) Is(target error) bool { return target == dl.ErrNoLibrary }

func missing(text string) backend.Library { return backend.Library{Err: nowhere(text)} }

// seen are devices as a driver shows them.
func seen(vendor string, products ...string) []backend.Device {
	var out []backend.Device
	for _, p := range products {
		out = append(out, backend.Device{Vendor: vendor, Product: p, Arch: "sm_90"})
	}
	return out
}

// eight are devices of one product.
func eight(vendor, product string) []backend.Device {
	return seen(vendor, slices.Repeat([]string{product}, 8)...)
}

// all is every library, found.
func all() map[string]backend.Library {
	return map[string]backend.Library{
		preflight.CUDA:   {Kind: preflight.CUDA, Version: "CUDA 13.0", Devices: eight("nvidia", "NVIDIA H200")},
		preflight.NVRTC:  {Kind: preflight.NVRTC, Version: "NVRTC 13.0"},
		"nccl":           {Kind: "nccl", Version: "2.28.9", SOName: "libnccl.so.2", Path: "/opt/private/libnccl.so.2"},
		preflight.HIP:    {Kind: preflight.HIP, Version: "HIP 6.4", Devices: eight("amd", "AMD Instinct MI300X")},
		preflight.HIPRTC: {Kind: preflight.HIPRTC, Version: "HIPRTC 6.4"},
		"rccl":           {Kind: "rccl", Version: "2.22.3"},

		"mscclpp": {Kind: "mscclpp", Version: "0.9.0"},
	}
}

func without(libraries map[string]backend.Library, kinds ...string) map[string]backend.Library {
	out := maps.Clone(libraries)
	for _, k := range kinds {
		out[k] = missing("no " + k)
	}
	return out
}

func gpus(vendor, product string, n int) inventory.Machine {
	m := inventory.Machine{}
	for i := range n {
		m.GPUs = append(m.GPUs, inventory.GPU{Index: i, Vendor: vendor, Product: product, Arch: "sm_90"})
		for j := range i {
			m.Links = append(m.Links, inventory.Link{Vendor: vendor, A: j, B: i, Kind: "nvlink", Width: 18})
		}
	}
	return m
}

// shm is a machine whose /dev/shm has so many KiB.
func shm(kib int) fstest.MapFS {
	return fstest.MapFS{
		"proc/self/mounts": {Data: fmt.Appendf(nil, "proc /proc proc rw 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,size=%dk,inode64 0 0\n", kib)},
		"proc/self/limits": {Data: []byte("Limit                     Soft Limit           Hard Limit           Units     \nMax locked memory         65536                65536                bytes     \n")},
	}
}

func TestExamine(t *testing.T) {
	const plenty = 64 << 20
	nvidia := gpus("nvidia", "NVIDIA H200", 8)
	fabric := gpus("nvidia", "NVIDIA H200", 8)
	fabric.NICs = []inventory.NIC{{Adapter: "MT4129", Active: true, Count: 8}}
	mig := gpus("nvidia", "NVIDIA H100 80GB HBM3", 8)
	mig.GPUs[1].Partition = "mig"
	with := shm(plenty)
	with["sys/module/nvidia_peermem/refcnt"] = &fstest.MapFile{Data: []byte("0\n")}
	for _, tc := range []struct {
		name      string
		machine   inventory.Machine
		libraries map[string]backend.Library
		root      fstest.MapFS
		want      string
	}{
		{
			"laptop", inventory.Machine{}, without(all(), preflight.CUDA, preflight.NVRTC, "nccl", preflight.HIP, preflight.HIPRTC, "rccl"), shm(plenty), `
nccl missing no NVIDIA GPU in this machine: use a machine that has one
rccl missing no AMD GPU in this machine: use a machine that has one
a2a missing no NVIDIA or AMD GPU in this machine: use a machine that has one
host ready processes over shared memory
elsewhere missing not supported by this version of cxrun
mscclpp missing no NVIDIA or AMD GPU in this machine: use a machine that has one`,
		},
		{
			"driver not loaded", inventory.Machine{Undriven: map[string]int{"nvidia": 1, "amd": 4}}, without(all(), preflight.CUDA, preflight.HIP), shm(plenty), `
nccl missing 1 NVIDIA GPU on the PCI bus, but no driver responds: nvidia-smi shows whether its driver works; in a container, start it with --gpus all
rccl missing 4 AMD GPUs on the PCI bus, but no driver responds: load amdgpu; in a container, start it with --device /dev/kfd --device /dev/dri
a2a missing 1 NVIDIA GPU on the PCI bus, but no driver responds: nvidia-smi shows whether its driver works; in a container, start it with --gpus all
host ready processes over shared memory
elsewhere missing not supported by this version of cxrun
mscclpp missing 1 NVIDIA GPU on the PCI bus, but no driver responds: nvidia-smi shows whether its driver works; in a container, start it with --gpus all`,
		},
		{
			"NVIDIA with all", nvidia, without(all(), preflight.HIP, "rccl"), shm(plenty), `
nccl ready 8 NVIDIA GPUs, CUDA 13.0, NCCL 2.28.9
rccl missing no AMD GPU in this machine: use a machine that has one
a2a ready 8 NVIDIA GPUs, CUDA 13.0, NCCL 2.28.9, NVRTC 13.0
host ready processes over shared memory
elsewhere missing not supported by this version of cxrun
mscclpp ready 8 NVIDIA GPUs, CUDA 13.0, MSCCL++ 0.9.0`,
		},
		{
			"AMD with all", gpus("amd", "AMD Instinct MI300X OAM", 8), without(all(), preflight.CUDA, "nccl"), shm(plenty), `
nccl missing no NVIDIA GPU in this machine: use a machine that has one
rccl ready 8 AMD GPUs, HIP 6.4, RCCL 2.22.3
a2a ready 8 AMD GPUs, HIP 6.4, RCCL 2.22.3, HIPRTC 6.4
host ready processes over shared memory
elsewhere missing not supported by this version of cxrun
mscclpp ready 8 AMD GPUs, HIP 6.4, MSCCL++ 0.9.0`,
		},
		{
			"no libraries", nvidia, without(all(), preflight.CUDA, preflight.NVRTC, "nccl", "mscclpp", preflight.HIP), shm(plenty), `
nccl missing no cuda
nccl missing no nccl
nccl note no nvrtc; until then results are checked on host copies instead of on the device
rccl missing no AMD GPU in this machine: use a machine that has one
a2a missing no cuda
a2a missing no nccl
a2a missing no nvrtc
host ready processes over shared memory
elsewhere missing not supported by this version of cxrun
mscclpp missing no cuda
mscclpp missing no mscclpp
mscclpp note no nvrtc; until then results are checked on host copies instead of on the device`,
		},
		{
			"small container without a compiler, MIG", mig, without(all(), preflight.NVRTC), shm(64 << 10), `
nccl ready 8 NVIDIA GPUs, CUDA 13.0, NCCL 2.28.9
nccl note no nvrtc; until then results are checked on host copies instead of on the device
nccl note MIG is on, and MIG instances cannot reach each other: turn it off with nvidia-smi -mig 0
nccl note /dev/shm has 64 MiB: start the container with --ipc=host or --shm-size=8g
`,
		},
		{
			"fabric without its settings", fabric, all(), shm(plenty), `
nccl ready 8 NVIDIA GPUs, CUDA 13.0, NCCL 2.28.9
nccl note RDMA adapters are active, but nvidia_peermem is not loaded: without it or DMA-BUF, data between machines goes through host memory
nccl note RDMA adapters are active, but at most 64 KiB of memory may be locked: raise it with ulimit -l unlimited
`,
		},
		{
			"fabric with peer memory", fabric, all(), with, `
nccl ready 8 NVIDIA GPUs, CUDA 13.0, NCCL 2.28.9
nccl note RDMA adapters are active, but at most 64 KiB of memory may be locked: raise it with ulimit -l unlimited
`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ask := backends
			if strings.HasSuffix(tc.want, "\n") {
				ask = backends[:1]
			}
			var got []string
			for _, f := range preflight.NewExaminer(tc.machine, tc.libraries, tc.root, known).Examine(ask) {
				require.NotContains(t, f.Text, "\n")
				got = append(got, f.Backend+" "+f.State+" "+f.Text)
			}
			require.Equal(t, strings.TrimSpace(tc.want), strings.Join(got, "\n"))
		})
	}
}

func TestDescribeAndPlan(t *testing.T) {
	e := preflight.NewExaminer(gpus("nvidia", "NVIDIA H200", 8), without(all(), preflight.HIP, preflight.HIPRTC, "rccl", "mscclpp"), shm(1<<20), known)
	d := e.Describe(e.Examine(backends))
	require.Equal(t, []string{"nccl", "a2a", "host"}, d.Backends)
	text, err := json.Marshal(d)
	require.NoError(t, err)
	require.NotContains(t, string(text), "private", "paths stay here")
	require.Contains(t, string(text), `{"kind":"nccl","version":"2.28.9","soname":"libnccl.so.2"}`)

	text, err = json.Marshal(e.Survey(backends))
	require.NoError(t, err)
	var s preflight.Survey
	require.NoError(t, json.Unmarshal(text, &s), "another process reads it")
	require.Empty(t, s.Unusable)
	require.Equal(t, []planner.GPUs{{
		Vendor: "nvidia", Product: "h200", Arch: "sm90", Transport: "nvlink", Count: 8, Backends: []string{"nccl", "a2a"},
	}}, s.GPUs)
}

// What ranks can use, of what the machine and its drivers show, and why not more.
func TestSurveyOfOddMachines(t *testing.T) {
	here := gpus("nvidia", "NVIDIA H200", 8)
	lost := here
	lost.Lost = []int{3}
	notReady := backend.Library{Err: errors.New("CUDA driver: cuInit: CUDA_ERROR_SYSTEM_NOT_READY (802)")}
	for _, tc := range []struct {
		name      string
		machine   inventory.Machine
		libraries map[string]backend.Library
		count     int // 0: none
		unusable  string
	}{
		{"fewer visible than there", here, map[string]backend.Library{preflight.CUDA: {Devices: seen("nvidia", "NVIDIA H200", "NVIDIA H200")}}, 2, ""},
		{
			"unlike products", gpus("nvidia", "NVIDIA H200", 3),
			map[string]backend.Library{preflight.CUDA: {Version: "CUDA 13.0", Devices: seen("nvidia", "NVIDIA H200", "NVIDIA T400", "NVIDIA H200")}},
			0,
			"the 3 NVIDIA GPUs of this machine cannot be used: CUDA 13.0 shows different devices: 0, 2 NVIDIA H200; 1 NVIDIA T400: select equal ones with CUDA_VISIBLE_DEVICES",
		},
		{
			"first device lost", lost, nil, 0,
			"the 9 NVIDIA GPUs of this machine cannot be used: NVML cannot open device 3, which ranks would get first: see nvidia-smi, or select others with CUDA_VISIBLE_DEVICES",
		},
		{"no driver library", here, map[string]backend.Library{preflight.CUDA: missing("no cuda")}, 0, "the 8 NVIDIA GPUs of this machine cannot be used: no cuda"},
		{"driver does not start", here, map[string]backend.Library{preflight.CUDA: notReady}, 0, "the 8 NVIDIA GPUs of this machine cannot be used: " + notReady.Err.Error()},
		{
			"driver does not start, nor NVML",
			inventory.Machine{Undriven: map[string]int{"nvidia": 2}},
			map[string]backend.Library{preflight.CUDA: notReady},
			0,
			"2 NVIDIA GPUs on the PCI bus, but no driver responds: " + notReady.Err.Error(),
		},
		{"no library to measure", here, map[string]backend.Library{"nccl": missing("no nccl"), "mscclpp": missing("no mscclpp")}, 0, "the 8 NVIDIA GPUs of this machine cannot be used: no nccl"},
		{"nothing", inventory.Machine{}, map[string]backend.Library{preflight.CUDA: missing("no cuda")}, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			libraries := without(all(), preflight.HIP)
			maps.Copy(libraries, tc.libraries)
			s := preflight.NewExaminer(tc.machine, libraries, fstest.MapFS{}, known).Survey(backends)
			if tc.count > 0 {
				require.Equal(t, tc.count, s.GPUs[0].Count)
			} else {
				require.Empty(t, s.GPUs)
			}
			require.Equal(t, tc.unusable, strings.Join(s.Unusable, "\n"))
		})
	}
}

// Each vendor's GPUs are there for the backends that drive them.
func TestSurveyOfTwoVendors(t *testing.T) {
	m := gpus("nvidia", "NVIDIA H200", 2)
	m.GPUs = append(m.GPUs, gpus("amd", "AMD Instinct MI300X", 8).GPUs...)
	libraries := all()
	libraries[preflight.CUDA] = backend.Library{Devices: seen("nvidia", "NVIDIA H200", "NVIDIA H200")}
	libraries["mscclpp"] = backend.Library{Version: "0.9.0", Drives: "nvidia"}
	s := preflight.NewExaminer(m, libraries, fstest.MapFS{}, known).Survey(backends)
	for backend, want := range map[string]string{"nccl": "nvidia", "rccl": "amd", "a2a": "amd", "mscclpp": "nvidia"} {
		g, name := s.Choose([]string{backend})
		require.Equal(t, backend, name)
		require.Equal(t, want, g.Vendor, backend)
	}

	m.GPUs = m.GPUs[2:]
	libraries[preflight.CUDA] = missing("no cuda")
	s = preflight.NewExaminer(m, libraries, fstest.MapFS{}, known).Survey(backends)
	require.Equal(t, []string{"MSCCL++ 0.9.0 drives NVIDIA GPUs: set CX_MSCCLPP_LIB to one that was built for AMD"}, s.Lacks("mscclpp"))
	require.Equal(t, []string{"rccl", "a2a"}, s.GPUs[0].Backends)
}

// Who names a driver that cannot be used is told so where a backend of both vendors could run on the
// other one's GPUs; backends of the other vendor alone run.
func TestMisnamedDriver(t *testing.T) {
	named := &dl.NamedError{What: "CUDA driver", Env: "CX_CUDA_LIB", Path: "/nowhere/lib.so", Err: errors.New("no such file")}
	libraries := all()
	libraries[preflight.CUDA] = backend.Library{Err: named}
	e := preflight.NewExaminer(gpus("amd", "AMD Instinct MI300X", 8), libraries, shm(64<<20), known)
	s := e.Survey(backends)
	require.Equal(t, []string{"rccl"}, s.GPUs[0].Backends)
	require.Equal(t, []string{named.Error()}, s.Misnamed([]string{"a2a"}))
	require.Empty(t, s.Misnamed([]string{"rccl", "nccl"}))
	require.Len(t, s.Lacks("nccl"), 1)
	wording.Has(t, s.Lacks("nccl")[0], "no NVIDIA GPU … ; "+named.Error())
}

// NIXL moves nothing without its plugin UCX: a library that opens is not ready yet.
func TestNIXLWithoutItsPlugin(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	require.NoError(t, libraries()["nixl"].Err)
	require.Empty(t, os.Getenv("UCX_DEBUG_SIGNO"))
	t.Setenv("CX_FAKE_NIXL_NO_PLUGIN", "1")
	libraries := libraries()
	require.ErrorContains(t, libraries["nixl"].Err, "no plugin UCX that loads")
	e := preflight.NewExaminer(inventory.Machine{}, libraries, shm(1<<20), known)
	found := e.Examine([]catalog.Backend{{Name: "nixl", Vendors: []string{vocab.Host}}})
	require.Equal(t, []preflight.Finding{{Backend: "nixl", State: preflight.Missing, Text: libraries["nixl"].Err.Error()}}, found)
}

// NIXL cannot run while the environment decides what UCX uses: its ranks refuse that.
func TestPresetTransports(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	require.NoError(t, libraries()["nixl"].Err)
	t.Setenv("UCX_NET_DEVICES", "eth0")
	require.NoError(t, libraries()["nixl"].Err, "launchers keep it from the ranks of a host")
	t.Setenv("UCX_TLS", "tcp")
	libraries := libraries()
	require.ErrorContains(t, libraries["nixl"].Err, "UCX_TLS=tcp: ")
	nixl := catalog.Backend{Name: "nixl", Vendors: []string{vocab.Host}}
	e := preflight.NewExaminer(inventory.Machine{}, libraries, shm(1<<20), known)
	require.Equal(t, []preflight.Finding{{Backend: "nixl", State: preflight.Missing, Text: libraries["nixl"].Err.Error(), Held: true}}, e.Examine([]catalog.Backend{nixl}))
}

// Mooncake cannot run while the environment decides what it uses, nor without a library that its
// module needs. Neither is found by importing it.
func TestMooncakeThatIsHeld(t *testing.T) {
	pystandin.Use(t)
	site := t.TempDir()
	t.Setenv("PYTHONPATH", site)
	require.NoError(t, os.Mkdir(filepath.Join(site, "mooncake"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(site, "mooncake", "__init__.py"), []byte("raise SystemExit\n"), 0o644))
	engine := filepath.Join(site, "mooncake", "engine.so")
	mooncake := catalog.Backend{Name: "mooncake", Vendors: []string{vocab.Host}}
	examine := func() []preflight.Finding {
		return preflight.NewExaminer(inventory.Machine{}, libraries(), shm(1<<20), known).Examine([]catalog.Backend{mooncake})
	}
	linked(t, engine, "libm.so.6")
	found := examine()
	require.Equal(t, preflight.Ready, found[0].State, found[0].Text)
	require.Equal(t, preflight.Finding{Backend: "mooncake", State: preflight.Note, Text: transferpython.Mooncake.Listens}, found[1])

	for _, name := range []string{"MC_FORCE_HCA", "MC_FORCE_MNNVL", "MC_INTRANODE_NVLINK"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "1")
			found := examine()
			require.Equal(t, []preflight.Finding{{Backend: "mooncake", State: preflight.Missing, Held: true, Text: found[0].Text}}, found)
			require.Contains(t, found[0].Text, name+"=1: ")
		})
	}

	linked(t, engine, "libcx-nowhere.so.1")
	found = examine()
	require.Equal(t, []preflight.Finding{{Backend: "mooncake", State: preflight.Missing, Held: true, Text: found[0].Text}}, found)
	wording.Has(t, found[0].Text, "mooncake/engine.so … libcx-nowhere.so.1 … LD_LIBRARY_PATH")
}

// linked makes a shared library that needs another one.
func linked(t *testing.T, file, needs string) {
	t.Helper()
	other := filepath.Join(t.TempDir(), "other.so")
	for _, args := range [][]string{
		{"-o", other, "-Wl,-soname," + needs, "-x", "c", "/dev/null"},
		{"-o", file, "-x", "c", "/dev/null", "-x", "none", "-Wl,--no-as-needed", other},
	} {
		out, err := exec.Command(fakes.Compiler(t), append([]string{"-shared", "-fPIC"}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// Without a loopback interface, ranks of NIXL and Mooncake cannot connect.
func TestWithoutLoopback(t *testing.T) {
	if !netns.Own(t) {
		return
	}
	libraries := map[string]backend.Library{"nixl": {Version: "1.5.1"}, "mooncake": {}, "python": {}, preflight.CUDA: all()[preflight.CUDA]}
	examine := func(backend string) preflight.Survey {
		b := catalog.Backend{Name: backend, Vendors: []string{"nvidia", vocab.Host}}
		return preflight.NewExaminer(gpus("nvidia", "NVIDIA H200", 8), libraries, shm(1<<20), known).Survey([]catalog.Backend{b})
	}
	for _, name := range []string{"nixl", "mooncake"} {
		require.Equal(t, []string{name}, examine(name).Host)
	}
	netns.Loopback(t, false)
	for _, name := range []string{"nixl", "mooncake"} {
		s := examine(name)
		require.Equal(t, []preflight.Finding{{
			Backend: name, State: preflight.Missing, Held: true, Text: "the loopback interface is down, over which the ranks of a host connect: run ip link set lo up",
		}}, s.Findings)
		require.Empty(t, s.GPUs)
	}
}

// A backend of overlap says which library would multiply, and where it is, or what is missing. Only
// its cases need the library: it keeps nothing from running, and measurements do not look for it.
func TestMultipliers(t *testing.T) {
	overlaps := catalog.Backend{Name: "nccl", Vendors: []string{"nvidia"}, Blocks: map[string]catalog.BackendBlock{string(overlap.Name): &overlap.Backend{}}}
	plain := overlaps
	plain.Blocks = nil
	ready := preflight.NewExaminer(gpus("nvidia", "NVIDIA H200", 8), all(), shm(64<<20), known).Examine([]catalog.Backend{plain})[0].Text
	for _, tt := range []struct {
		cublaslt backend.Library
		texts    []string
	}{
		{
			backend.Library{Kind: preflight.CUBLASLt, Version: "13.1.2", Path: "/opt/libcublasLt.so.13"},
			[]string{ready + "; matrix products of overlap by cuBLASLt 13.1.2 (/opt/libcublasLt.so.13)"},
		},
		{missing("no cublaslt"), []string{ready, "no cublaslt; until then matrix products of overlap are computed by a kernel, without matrix units"}},
	} {
		libraries := all()
		libraries[preflight.CUBLASLt] = tt.cublaslt
		e := preflight.NewExaminer(gpus("nvidia", "NVIDIA H200", 8), libraries, shm(64<<20), known)
		var texts []string
		for _, f := range e.Examine([]catalog.Backend{overlaps}) {
			texts = append(texts, f.Text)
			require.Empty(t, f.Variable)
		}
		require.Equal(t, tt.texts, texts)
		s := e.Survey([]catalog.Backend{overlaps})
		require.Empty(t, s.Lacks("nccl"))
	}
	e := preflight.NewExaminer(gpus("nvidia", "NVIDIA H200", 8), all(), shm(64<<20), known)
	require.Equal(t, []preflight.Finding{{Backend: "nccl", State: preflight.Ready, Text: ready}}, e.Examine([]catalog.Backend{overlaps}))
}

// NIXL runs between processes of a host, and also between two GPUs if they, and what UCX needs
// for them, are there.
func TestNIXL(t *testing.T) {
	nixl := catalog.Backend{Name: "nixl", Vendors: []string{"nvidia", "host"}, Blocks: map[string]catalog.BackendBlock{
		string(transfer.Name): &transfer.Backend{
			Lanes:       []string{vocab.LaneTCP, vocab.LanePeer, vocab.LaneRDMA},
			Unsupported: []transfer.UnsupportedLane{{Lane: vocab.LaneRDMA, Reason: "not yet"}},
		},
	}}
	with := func(more map[string]backend.Library) map[string]backend.Library {
		libraries := all()
		libraries["nixl"] = backend.Library{Version: "1.5.1"}
		maps.Copy(libraries, more)
		return libraries
	}
	rdma := preflight.Finding{Backend: "nixl", State: preflight.Note, Text: "transfers cannot use lane rdma: not yet"}
	e := preflight.NewExaminer(gpus("nvidia", "NVIDIA H200", 8), with(nil), shm(1<<20), known)
	require.Equal(t, []preflight.Finding{
		{Backend: "nixl", State: preflight.Ready, Text: "processes of this host, NIXL 1.5.1; transfers over tcp, peer"}, rdma,
	}, e.Examine([]catalog.Backend{nixl}))
	s := e.Survey(append(slices.Clone(backends[:1]), nixl))
	require.Equal(t, []string{"nccl", "nixl"}, s.GPUs[0].Backends)
	require.Equal(t, []string{"nixl"}, s.Host)

	one := []backend.Device{all()[preflight.CUDA].Devices[0]}
	for why, tc := range map[string]struct {
		machine inventory.Machine
		more    map[string]backend.Library
	}{
		"no NVIDIA GPU":                      {inventory.Machine{}, map[string]backend.Library{preflight.CUDA: missing("no cuda")}},
		"no cuda":                            {gpus("nvidia", "NVIDIA H200", 8), map[string]backend.Library{preflight.CUDA: missing("no cuda")}},
		"it joins two GPUs, and ranks get 1": {gpus("nvidia", "NVIDIA H200", 1), map[string]backend.Library{preflight.CUDA: {Version: "CUDA 13.0", Devices: one}}},
		"no libcudart":                       {gpus("nvidia", "NVIDIA H200", 8), map[string]backend.Library{"nixl": {Version: "1.5.1", Lanes: map[string]error{vocab.LanePeer: errors.New("no libcudart")}}}},
	} {
		e := preflight.NewExaminer(tc.machine, with(tc.more), shm(1<<20), known)
		found := e.Examine([]catalog.Backend{nixl})
		require.Len(t, found, 3)
		require.Equal(t, preflight.Ready, found[0].State)
		require.Equal(t, preflight.Note, found[1].State)
		wording.Has(t, found[1].Text, "lane peer: … "+why)
		require.Equal(t, rdma, found[2])
	}

	vm := catalog.Backend{Name: "nixl", Vendors: []string{"host"}, Blocks: map[string]catalog.BackendBlock{
		string(transfer.Name): &transfer.Backend{Lanes: []string{vocab.LaneProcessVM, vocab.LaneTCP}},
	}}
	e = preflight.NewExaminer(inventory.Machine{}, with(map[string]backend.Library{
		"nixl": {Version: "1.5.1", Lanes: map[string]error{vocab.LaneProcessVM: errors.New("no cma")}},
	}), shm(1<<20), known)
	found := e.Examine([]catalog.Backend{vm})
	require.Len(t, found, 2)
	require.Equal(t, preflight.Ready, found[0].State)
	require.Equal(t, preflight.Note, found[1].State)
	wording.Has(t, found[1].Text, "lane vm: no cma")

	e = preflight.NewExaminer(gpus("nvidia", "NVIDIA H200", 8), with(map[string]backend.Library{"nixl": missing("no NIXL")}), shm(1<<20), known)
	require.Equal(t, []preflight.Finding{{Backend: "nixl", State: preflight.Missing, Text: "no NIXL"}}, e.Examine([]catalog.Backend{nixl}))
	s = e.Survey(append(slices.Clone(backends[:1]), nixl))
	require.Equal(t, []string{"nccl"}, s.GPUs[0].Backends)
	require.Empty(t, s.Host)
}

// Over RDMA, NIXL joins a GPU of this machine with one of another, through an adapter.
func TestNIXLBetweenNodes(t *testing.T) {
	nixl := catalog.Backend{Name: "nixl", Vendors: []string{"nvidia", "host"}, Blocks: map[string]catalog.BackendBlock{
		string(transfer.Name): &transfer.Backend{Lanes: []string{vocab.LaneTCP, vocab.LaneRDMA}},
	}}
	libraries := all()
	libraries["nixl"] = backend.Library{Version: "1.5.1"}
	with := gpus("nvidia", "NVIDIA H200", 1)
	with.NICs = []inventory.NIC{{Adapter: "MT4129", Active: true}}
	off := gpus("nvidia", "NVIDIA H200", 1)
	off.NICs = []inventory.NIC{{Adapter: "MT4129"}}
	for _, tt := range []struct {
		machine inventory.Machine
		usable  string
		note    string
	}{
		{with, "tcp, rdma", ""},
		{off, "tcp", "no RDMA adapter of this machine is active"},
		{inventory.Machine{NICs: with.NICs}, "tcp", "no NVIDIA GPU"},
	} {
		if len(tt.machine.GPUs) == 0 {
			libraries = map[string]backend.Library{"nixl": {Version: "1.5.1"}, preflight.CUDA: missing("no cuda")}
		}
		found := preflight.NewExaminer(tt.machine, libraries, shm(1<<20), known).Examine([]catalog.Backend{nixl})
		require.Regexp(t, "\\b"+tt.usable+"$", found[0].Text)
		if tt.note != "" {
			wording.Has(t, found[1].Text, "lane rdma: … "+tt.note)
		}
	}
}

// The stand-ins, which have no NVML: what the drivers say of their devices
// stands in for the inventory.
func TestLibraries(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_FAKE_DEVICES", "4")
	libraries := libraries()
	for kind, want := range map[string]string{
		preflight.CUDA: "CUDA 13.0", preflight.NVRTC: "NVRTC 13.0", preflight.HIP: "HIP 6.4", preflight.HIPRTC: "HIPRTC 6.4",
		"hsa": "1.1",
	} {
		l := libraries[kind]
		require.NoError(t, l.Err)
		require.Equal(t, want, l.Version)
		require.Equal(t, kind, l.Kind)
		require.NotEmpty(t, l.SOName)
		require.NotEmpty(t, l.Path)
	}
	require.Regexp(t, `^2\.[0-9]+\.[0-9]+$`, libraries["nccl"].Version)
	require.Regexp(t, `^2\.[0-9]+\.[0-9]+$`, libraries["rccl"].Version)
	require.Equal(t, "0.9.0", libraries["mscclpp"].Version)
	require.Len(t, libraries[preflight.CUDA].Devices, 4)

	e := preflight.NewExaminer(inventory.Machine{}, libraries, fstest.MapFS{}, known)
	findings := e.Examine(backends[:2])
	require.Len(t, findings, 2)
	require.Equal(t, preflight.Ready, findings[0].State)
	require.Regexp(t, `^4 NVIDIA GPUs, CUDA 13.0, NCCL 2\.`, findings[0].Text)
	require.Regexp(t, `^4 AMD GPUs, HIP 6.4, RCCL 2\.`, findings[1].Text)
	require.Len(t, e.Describe(findings).GPUs, 8)
	s := e.Survey(backends)
	require.Equal(t, "cx-fake-nvidia-gpu", s.GPUs[0].Product)
	require.Equal(t, "sm90", s.GPUs[0].Arch)
}

func TestLibrariesThatAreNotThere(t *testing.T) {
	for _, name := range []string{"CX_CUDA_LIB", "CX_NVRTC_LIB", "CX_HIP_LIB", "CX_HIPRTC_LIB", "CX_NCCL_LIB", "CX_RCCL_LIB", "CX_MSCCLPP_LIB", "CX_NCCL_EP_LIB", "CX_NIXL_LIB", "CX_HSA_LIB", "CX_PYTHON_LIB"} {
		t.Setenv(name, "/nowhere/lib.so")
	}
	own := []string{
		preflight.CUDA, preflight.NVRTC, preflight.HIP, preflight.HIPRTC, "nccl", "rccl", "mscclpp",
		"nccl-ep", "nixl", "hsa",
	}
	for kind, l := range libraries() {
		t.Run(kind, func(t *testing.T) {
			if !slices.Contains(own, kind) { // it is used through Python
				need.Tool(t, "python3")
			}
			require.False(t, l.Found())
			require.ErrorContains(t, l.Err, "/nowhere/lib.so")
			require.NotContains(t, l.Err.Error(), "\n")
		})
	}
}

func TestDriverWithoutDevice(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_FAKE_FAIL", "cuDeviceGetCount=100,hipInit=100")
	libraries := libraries()
	require.ErrorContains(t, libraries[preflight.CUDA].Err, "CUDA 13.0 sees no device: check CUDA_VISIBLE_DEVICES; ")
	require.ErrorContains(t, libraries[preflight.HIP].Err, "hipErrorNoDevice (100): check HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES; ")
}

func TestDriverThatDoesNotStartSaysWhatToDo(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	for code, want := range map[int]string{
		100: "CUDA_ERROR_NO_DEVICE (100): check CUDA_VISIBLE_DEVICES",
		802: "CUDA_ERROR_SYSTEM_NOT_READY (802): start nvidia-fabricmanager",
		803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): ",
		999: "CUDA_ERROR_UNKNOWN (999): load nvidia_uvm",
	} {
		t.Setenv("CX_FAKE_FAIL", fmt.Sprintf("cuInit=%d", code))
		require.ErrorContains(t, libraries()[preflight.CUDA].Err, "CUDA driver: cuInit: "+want)
	}
}

// What is used through Python is found without importing it, in the environment of python3
// on PATH, and what is missing says where it belongs.
func TestPythonPackages(t *testing.T) {
	nvidia := []string{"nvidia"}
	ask := []catalog.Backend{{Name: "deepep-v2", Vendors: nvidia}, {Name: "deepep-legacy", Vendors: nvidia}, {Name: "uccl-ep", Vendors: nvidia}}
	examine := func() []preflight.Finding {
		return preflight.NewExaminer(inventory.Machine{}, libraries(), fstest.MapFS{}, known).Examine(ask)
	}
	pystandin.Use(t, "deep_ep-1")
	found := examine()
	require.Equal(t, preflight.Missing, found[0].State)
	require.Regexp(t, `^module deep_ep of Python 3\.[0-9.]+ of .*/python3 is the DeepEP before V2 \(it has no ElasticBuffer\): install DeepEP V2, in an environment of its own$`, found[0].Text)
	require.Equal(t, preflight.Ready, found[1].State, found[1].Text)
	require.Regexp(t, `^2 NVIDIA GPUs, CUDA 13.0, Python 3\.[0-9.]+, torch 2\.10\.0\+standin, DeepEP 1\.2\.1\+29d31c0$`, found[1].Text)

	pystandin.Use(t, "deep_ep-2", "uccl")
	found = examine()
	require.Equal(t, preflight.Ready, found[0].State, found[0].Text)
	require.Regexp(t, `is DeepEP V2 \(it has an ElasticBuffer\): install DeepEP 1\.2, before ElasticBuffer, in an environment`, found[1].Text)
	require.Contains(t, found[2].Text, " is DeepEP V2 (it has an ElasticBuffer): install UCCL's deep_ep ")

	pystandin.Use(t, "uccl")
	found = examine()
	for _, f := range found[:2] {
		require.Equal(t, preflight.Missing, f.State, f.Backend)
		require.Contains(t, f.Text, " is UCCL's (its Buffer takes is_intranode): install DeepEP ")
	}
	require.Equal(t, preflight.Ready, found[2].State, found[2].Text)
	require.Regexp(t, `, torch 2\.10\.0\+standin, UCCL 0\.1\.0, its deep_ep$`, found[2].Text)

	pystandin.Use(t, "deep_ep-1", "uccl")
	found = examine()
	require.Equal(t, preflight.Ready, found[1].State, found[1].Text)
	require.Regexp(t, `^module deep_ep .* is the DeepEP before V2 .*: install UCCL's deep_ep \(ep/deep_ep_wrapper of its sources\), in an environment of its own$`, found[2].Text)

	pystandin.Use(t)
	require.Regexp(t, `^no module deep_ep for Python 3\.[0-9.]+ of .*: install DeepEP V2 there, or put the bin directory`, examine()[0].Text)

	t.Setenv("CX_PYTHON_LIB", "/nowhere/libpython.so")
	found = examine()
	require.Len(t, found, 3, "one reason for each backend")
	require.Equal(t, "CX_PYTHON_LIB", found[0].Variable)
	require.Contains(t, found[0].Text, "/nowhere/libpython.so")
}

// What needs no ranks needs neither shared memory nor devices.
func TestSimulatorIsReady(t *testing.T) {
	simulator := catalog.Backend{Name: "simulator", Vendors: []string{vocab.Host}, Blocks: map[string]catalog.BackendBlock{string(simulation.Name): &simulation.Backend{}}}
	e := preflight.NewExaminer(inventory.Machine{}, nil, fstest.MapFS{}, known)
	require.Equal(t, []preflight.Finding{
		{Backend: "simulator", State: preflight.Ready, Text: "simulated in the process of cxrun: needs no devices"},
	}, e.Examine([]catalog.Backend{simulator}))
}
