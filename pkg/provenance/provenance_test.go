package provenance_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/preflight"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
)

func TestScreenFindsPrivateShapes(t *testing.T) {
	s := provenance.NewScreen()
	for _, tc := range []struct{ kind, text string }{
		{"an IPv4 address", "socket 10.0.12.7"},
		{"an IPv4 address", "10.0.12.7:4791"},
		{"an IPv4 address", "at 192.168.1.255."},
		{"an IPv6 address", "fe80::1ff:fe23:4567:890a"},
		{"an IPv6 address", "[2001:db8::1]:443"},
		{"an IPv6 address", "::1"},
		{"an IPv6 address", "addr 2001:0db8:0000:0000:0000:ff00:0042:8329,"},
		{"an IPv6 address", "fe80:0000:0000:0000:b859:9f03:00d4:1234"},
		{"a MAC address", "link aa:bb:CC:00:11:22 up"},
		{"a MAC address", "AA-BB-CC-00-11-22"},
		{"a MAC address", "00:00:10:29:fe:80:00:00:00:00:00:00:ec:0d:9a:03:00:7d:6c:0e:11:12"}, // InfiniBand hardware address
		{"a fabric GUID", "b859:9f03:00d4:1234"},
		{"a PCI address", "0000:3b:00.0"},
		{"a PCI address", "GPU at 3B:00.0"},
		{"a PCI address", "00000000:1A:00.0"},
		{"a UUID", "GPU-8d7f1a2b-0c1d-4e5f-8a9b-0123456789ab"},
		{"a path", "/home/someone/run"},
		{"a path", "opening /tmp"},
		{"a path", "file=/etc/x"},
		{"a path", "~/x"},
		{"a path", "../secret/x"},
		{"a path", `C:\Users\x`},
		{"a user at a host", "someone@login01"},
		{"a host name", "gpu-17.cluster.internal"},
		{"a host name", "rack3.example.com"},
		{"a credential", "ghp_0123456789abcdefghij0123"},
		{"a credential", "github_pat_0123456789abcdefghij"},
		{"a credential", "hf_abcdefghijklmnopqrstuvwx"},
		{"a credential", "xoxb-0123456789-abcdefghij"},
		{"a credential", "AKIA0123456789ABCDEF"},
		{"a credential", "eyJhbGciOiJIUzI1NiJ9"},
		{"a credential", "Bearer abcdef0123456789"},
		{"a credential", "token=abc"},
		{"a credential", "-----BEGIN PRIVATE KEY"},
	} {
		err := s.Check(tc.text)
		require.ErrorIs(t, err, provenance.ErrPrivate, tc.text)
		require.ErrorContains(t, err, tc.kind, tc.text)
		require.NotContains(t, err.Error(), tc.text)
	}
}

func TestScreenLetsThePublicPass(t *testing.T) {
	s := provenance.NewScreen("x", "local", "host", "", "nvidia")
	for _, text := range []string{
		"", "2.28.3", "550.54.15", "CUDA 13.0", "6.8.0-45-generic", "4.18.0-553.16.1.el8_10", "torch 2.9.0+cu130",
		"2026-01-02T03:04:05.006Z", "2026-01-02T16:39:42.1Z", "2026-01-02T16:39:42.7+01:00", "AMD EPYC 9654 96-Core Processor", "Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz",
		"NVIDIA H200", "libnccl.so.2", "tokens/s", "GB/s", "dispatch / combine", "n/a", "gfx942:sramecc+:xnack-",
		"nvcr.io/nvidia/pytorch:25.10-py3", "nvcr.io/nvidia/pytorch@sha256:0123456789abcdef", "rank-died: rank 1 signal 9",
		"local-host-deepseek-v3-normal-decode-ep2-uniform-bf16", "b200-nvl8-ib-ro-ce-ll-1", "1 2 4 8 16 32",
		"0123456789abcdef0123456789abcdef01234567", "mlx5_0:1,mlx5_1:1", "std:string", "a:b", "0x1f", "cxrun v0.1.0-3-gabcdef0",
		"semantic correctness or routing identity failed", "timeout: case budget of 60 s",
	} {
		require.NoError(t, s.Check(text), text)
	}
}

func TestScreenKnowsTheNamesOfThisMachine(t *testing.T) {
	environ := []string{
		"USER=casimir", "HOME=/home/casimir", "GITHUB_TOKEN=s3cr3tvalue", "AWS_SECRET_ACCESS_KEY=q9w8e7r6", "RUNNER_NAME=h200-dgxc_04",
		"SLURM_JOB_NODELIST=rack[08-10,12],login7", "NCCL_DEBUG=INFO", "PASS=short",
	}
	s := provenance.ScreenOf("gpuhost17.dc.example", environ)
	for _, text := range []string{
		"gpuhost17", "on GPUHOST17:", "gpuhost17.dc.example", "casimir", "x s3cr3tvalue", "q9w8e7r6", "h200-dgxc_04", "rack09", "rack12", "login7",
	} {
		require.ErrorIs(t, s.Check(text), provenance.ErrPrivate, text)
	}
	for _, text := range []string{"INFO", "short", "rack11", "gpuhost170", "gpuhost", "rack"} {
		require.NoError(t, s.Check(text), text)
	}
}

func TestScreenOfDocuments(t *testing.T) {
	s := provenance.NewScreen("h200-dgxc")
	require.NoError(t, s.Document([]byte(`{"identity":{"case":{"sku":"h200-dgxc"}},"x":"h200-dgxc"}`)), "a word of the case is public")
	require.ErrorIs(t, s.Document([]byte(`{"identity":{"case":{"sku":"mi355x"}},"x":"h200-dgxc"}`)), provenance.ErrPrivate)
	require.EqualError(t, s.Document([]byte(`{"a":[{"b":"10.0.0.1"}]}`)), "a[0].b: holds something private: an IPv4 address")
	require.ErrorContains(t, s.Document([]byte(`{"a":{"10.0.0.1":1}}`)), "a key of a")
	require.Error(t, s.Document([]byte(`{"a":`)))
}

// Documents of a machine that is called like one of their words are published.
func TestScreenKnowsTheWordsOfDocuments(t *testing.T) {
	a := resulttest.Attempt()
	a.SourceSHA, a.Environment = "", nil
	published := []any{resulttest.EP(resulttest.EPCase(), a), resulttest.Collective(resulttest.CollectiveCase(), a)}
	for _, r := range result.Codes() {
		published = append(published, resulttest.Fail(resulttest.New(resulttest.EPCase(), a), string(r)))
	}
	for _, p := range published {
		data, err := json.Marshal(p)
		require.NoError(t, err)
		words := regexp.MustCompile(`\b[A-Za-z0-9]+\b`).FindAllString(strings.ReplaceAll(string(data), "_", " "), -1)
		slices.Sort(words)
		for _, word := range slices.Compact(words) {
			require.NoError(t, provenance.NewScreen(word).Document(data), word)
		}
	}
}

// What a document says in words of ours is published whatever the machine and its
// user are called; what came from the machine is not.
func TestAPrivateWordIsLookedForWhereItCanStand(t *testing.T) {
	for _, word := range []string{"amd64", "bf16", "fp32", "float", "uniform", "deepseek", "implausible", "wide"} {
		s := provenance.ScreenOf(word, []string{"USER=" + word, "API_TOKEN=correct-horse"})
		at := func(place string) error {
			keys := strings.Split(place, ".")
			doc := `"a ` + word + ` b"`
			for _, k := range slices.Backward(keys) {
				doc = `{"` + k + `":` + doc + `}`
			}
			return s.Document([]byte(doc))
		}
		for _, place := range []string{"measurement.rows.path", "workload.routing", "identity.case_factors.case.precision", "provenance.host.arch", "runtime.vendor", "devices.warnings"} {
			require.NoError(t, at(place), "%s in %s", word, place)
		}
		for _, place := range []string{"runtime.framework", "topology.device_product", "provenance.host.kernel", "provenance.environment.NCCL_NET", "implementation.library_version", "new"} {
			require.ErrorIs(t, at(place), provenance.ErrPrivate, "%s in %s", word, place)
		}
		require.NoError(t, s.Document([]byte(`{"outcome":{"reasons":["`+word+`","`+word+`: rank 1"]}}`)))
		require.ErrorIs(t, s.Document([]byte(`{"outcome":{"reasons":["library-error: `+word+`"]}}`)), provenance.ErrPrivate)
		require.ErrorIs(t, s.Document([]byte(`{"measurement":{"path":"correct-horse"}}`)), provenance.ErrPrivate, "a secret stands nowhere")
	}
}

// Keys that are not of the schema are looked at like values.
func TestScreenOfKeys(t *testing.T) {
	s := provenance.NewScreen("state")
	require.NoError(t, s.Document([]byte(`{"state":{"gpus":[{"state":1}]}}`)))
	require.EqualError(t, s.Document([]byte(`{"gpus":[{"state":"in state"}]}`)), "gpus[0].state: holds something private: a name of this machine")
	var open func(reflect.Type, string)
	open = func(typ reflect.Type, name string) {
		switch typ.Kind() {
		case reflect.Map:
			err := s.Document([]byte(`{"a":{"` + name + `":{"state":1}}}`))
			require.ErrorIs(t, err, provenance.ErrPrivate, "%s has keys of its own", name)
			open(typ.Elem(), "")
		case reflect.Pointer, reflect.Slice:
			open(typ.Elem(), name)
		case reflect.Struct:
			for f := range typ.Fields() {
				if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
					open(f.Type, name)
				}
			}
		default: // holds no keys
		}
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[ep.Document](), reflect.TypeFor[collective.Document](), reflect.TypeFor[transfer.Document](), reflect.TypeFor[preflight.Description](),
	} {
		open(typ, "")
	}
}

func TestEnvironment(t *testing.T) {
	got := provenance.NewScreen("gpuhost17").Environment([]string{
		"NCCL_ALGO=Ring,Tree", "NCCL_PROTO=^LL128", "NCCL_MAX_NCHANNELS=16", "NCCL_IB_HCA=mlx5_0:1,mlx5_1:1", "NCCL_BUFFSIZE=4M",
		"NCCL_SOCKET_IFNAME=^lo,docker,eth0", "NCCL_P2P_DIRECT_DISABLE=1", "UCX_TLS=rc,cuda_ipc,cuda_copy", "EP_DISABLE_GIN=1", "NVSHMEM_SYMMETRIC_SIZE=1g", "NCCL_NET=",
		"NCCL_COMM_ID=10.0.0.1:5000", "NCCL_HOSTID=gpuhost17", "NCCL_TOPO_FILE=/etc/topo.xml", "NCCL_DEBUG_FILE=x", "UCX_NET_DEVICES=gpuhost17",
		"NCCL_IB_GID=fe80::1", "NVSHMEM_TOKEN=abc", "NCCL_UNIQUE=GPU-8d7f1a2b-0c1d-4e5f-8a9b-0123456789ab", "MSCCLPP_HOSTID=1",
		"MSCCLPP_NCCL_LIB_PATH=/opt/nccl/libnccl.so.2", "MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION=allreduce,allgather", "MSCCLPP_NCCL_SYMMETRIC_MEMORY=1",
		"PATH=/bin", "HOME=/root", "GITHUB_TOKEN=x", "nccl_algo=Ring", "NCCL_weird=1", "NCCL_GPUHOST17_X=1", "NCCL_GHP_0123456789ABCDEFGHIJ=1", "XNCCL_ALGO=Ring", "NOVALUE",
		"LD_PRELOAD=/opt/inherited.so",
	}, nil)
	w := provenance.Withheld
	require.Regexp(t, `^6, sha256 [0-9a-f]{16}$`, got[provenance.WithheldVariables])
	delete(got, provenance.WithheldVariables)
	require.Equal(t, map[string]string{
		"NCCL_ALGO": "Ring,Tree", "NCCL_PROTO": "^LL128", "NCCL_MAX_NCHANNELS": "16", "NCCL_IB_HCA": "mlx5_0:1,mlx5_1:1", "NCCL_BUFFSIZE": "4M",
		"NCCL_SOCKET_IFNAME": "^lo,docker,eth0", "NCCL_P2P_DIRECT_DISABLE": "1", "UCX_TLS": "rc,cuda_ipc,cuda_copy", "EP_DISABLE_GIN": "1", "NVSHMEM_SYMMETRIC_SIZE": "1g", "NCCL_NET": "",
		"NCCL_COMM_ID": w, "NCCL_HOSTID": w, "NCCL_TOPO_FILE": w, "NCCL_DEBUG_FILE": w, "UCX_NET_DEVICES": w,
		"MSCCLPP_HOSTID":        w,
		"MSCCLPP_NCCL_LIB_PATH": w, "MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION": "allreduce,allgather", "MSCCLPP_NCCL_SYMMETRIC_MEMORY": "1",
	}, got)
}

// What ranks found beside their environment is published in the same forms, libraries by their names.
func TestSettings(t *testing.T) {
	of := func(name, value string) map[string]string {
		return provenance.NewScreen("gpuhost17").Environment(nil, map[string]string{name: value})
	}
	for _, c := range []struct{ name, value, want string }{
		{"NCCL_ALGO", "Ring", "Ring"},
		{"NCCL_TOPO_FILE", "/home/casimir/topo.xml", provenance.Withheld},
		{"LD_PRELOAD", "/home/casimir/libtcmalloc.so.4:0123456789abcdef libgpuhost17.so:gpuhost17", "libtcmalloc.so.4:0123456789abcdef withheld:withheld"},
		{"GLIBC_TUNABLES", "glibc.malloc.hugetlb=2:glibc.cpu.hwcaps=-AVX512F,-AVX2", "glibc.malloc.hugetlb=2:glibc.cpu.hwcaps=-AVX512F,-AVX2"},
		{"GLIBC_TUNABLES", "/home/casimir", provenance.Withheld},
		{provenance.ProcessorsVariable, "12", "12"},
	} {
		require.Equal(t, map[string]string{c.name: c.want}, of(c.name, c.value))
	}
	require.Contains(t, of("NCCL_GPUHOST17", "1"), provenance.WithheldVariables)
}

// Names that nobody knows are counted; what they were keeps runs apart, as far as it
// is not private itself.
func TestVariablesOfUnknownNames(t *testing.T) {
	of := func(environ ...string) map[string]string {
		return provenance.NewScreen("gpuhost17").Environment(environ, nil)
	}
	require.Empty(t, of("HOME=/root", "NCCL_TESTS_DEVICE=1", "NCCL_TESTS_SPLIT=MOD2"), "no library reads nccl-tests' variables")
	one := of("MC_ANYTHING=3")
	require.Len(t, one, 1)
	require.Equal(t, one, of("MC_ANYTHING=3"))
	require.NotEqual(t, one, of("MC_ANYTHING=4"))
	require.NotEqual(t, one, of("NCCL_ANYTHING=3"))
	require.NotEqual(t, one, of())
	require.Equal(t, of("NCCL_A=1", "MC_B=2"), of("MC_B=2", "NCCL_A=1"))
	require.Equal(t, of("NCCL_X_TOKEN=hunter2222"), of("NCCL_X_TOKEN=swordfish"), "a secret is in no digest")
	require.Equal(t, of("NCCL_GPUHOST17_X=1")[provenance.WithheldVariables], of("NCCL_lower=1")[provenance.WithheldVariables], "a private name is in no digest")

	require.Equal(t, map[string]string{
		"NCCL_BUFFSIZE": "33554432", "NVSHMEM_SYMMETRIC_SIZE": "10000000000", "NCCL_DEBUG": "withheld", "NCCL_IB_PKEY": "withheld", "NCCL_IB_TC": "106",
	}, of("NCCL_BUFFSIZE=33554432", "NVSHMEM_SYMMETRIC_SIZE=10000000000", "NCCL_DEBUG=202611220031", "NCCL_IB_PKEY=0xdeadbeef", "NCCL_IB_TC=106"),
		"values that look like ids are withheld, sizes are not")
}

// What the definitions that ship give the ranks is published by its name and value.
func TestEnvironmentOfTheDefinitions(t *testing.T) {
	cat, err := catalog.Load(matrix.FS)
	require.NoError(t, err)
	var all [][]catalog.Var
	for _, b := range cat.Backends {
		all = append(all, b.Env)
	}
	for _, p := range cat.Platforms {
		all = append(all, p.Env)
		if p.ScaleOut != nil {
			all = append(all, p.ScaleOut.Env)
		}
		for _, s := range p.Backends {
			all = append(all, s.Env)
		}
	}
	seen := 0
	for _, v := range slices.Concat(all...) {
		seen++
		require.Equal(t, map[string]string{v.Name: v.Value}, provenance.NewScreen().Environment([]string{v.Name + "=" + v.Value}, nil))
	}
	require.NotZero(t, seen)
}

func file(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }

func TestHost(t *testing.T) {
	root := fstest.MapFS{
		"proc/cpuinfo":              file("processor\t: 0\nmodel name\t: AMD EPYC 9654  96-Core Processor\nflags\t\t: fpu hypervisor sse\n\nprocessor\t: 1\nmodel name\t: other"),
		"proc/meminfo":              file("MemTotal:       16384 kB\nMemFree: 1 kB"),
		"proc/sys/kernel/osrelease": file("6.8.0-45-generic-rack17"),
		"etc/os-release":            file("NAME=\"Ubuntu\"\nID=ubuntu\nVERSION_ID=\"24.04\""),
		"sys/devices/system/cpu/cpu0/topology/physical_package_id": file("0"),
		"sys/devices/system/cpu/cpu0/topology/core_id":             file("0"),
		"sys/devices/system/cpu/cpu1/topology/physical_package_id": file("0"),
		"sys/devices/system/cpu/cpu1/topology/core_id":             file("0"),
		"sys/devices/system/cpu/cpu2/topology/physical_package_id": file("1"),
		"sys/devices/system/cpu/cpu2/topology/core_id":             file("0"),
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":     file("performance"),
		"sys/devices/system/cpu/cpufreq/x":                         file(""),
		"sys/devices/system/node/node0/cpulist":                    file("0-1"),
		"sys/devices/system/node/node1/cpulist":                    file("2"),
		"sys/kernel/mm/transparent_hugepage/enabled":               file("always [madvise] never"),
		"sys/fs/cgroup/cpu.max":                                    file("150000 100000"),
	}
	got := provenance.Host(root, provenance.NewScreen())
	delete(got, "arch")
	require.Equal(t, map[string]string{
		"cpu_model": "AMD EPYC 9654 96-Core Processor", "virtual_machine": "true", "cpu_sockets": "2", "cpu_cores": "2", "cpu_threads": "3",
		"numa_nodes": "2", "memory_bytes": "16777216", "kernel": "6.8.0-45-generic", "os": "ubuntu 24.04", "cpu_governor": "performance",
		"transparent_hugepage": "madvise", "cpu_quota": "1.5",
	}, got)

	got = provenance.Host(fstest.MapFS{}, provenance.NewScreen())
	require.Len(t, got, 1, "what cannot be read is absent")
	arm := fstest.MapFS{"proc/cpuinfo": file("CPU implementer\t: 0x41\nCPU part\t: 0xd4f")}
	require.Equal(t, "ARM implementer 0x41 part 0xd4f", provenance.Host(arm, provenance.NewScreen())["cpu_model"])
}

func TestHostOfThisMachine(t *testing.T) {
	got := provenance.Host(os.DirFS("/"), provenance.NewScreen())
	for _, fact := range []string{"kernel", "memory_bytes", "cpu_threads", "arch"} {
		require.NotEmpty(t, got[fact], fact)
	}
	data, err := json.Marshal(got)
	require.NoError(t, err)
	hostname, err := os.Hostname()
	require.NoError(t, err)
	require.NoError(t, provenance.ScreenOf(hostname, os.Environ()).Document(data))
}

func TestPublicText(t *testing.T) {
	s := provenance.NewScreen("gpuhost17")
	require.Equal(t, "NVIDIA H200", s.Public("NVIDIA H200"))
	require.Equal(t, "gfx942:sramecc+:xnack-", s.Public("gfx942:sramecc+:xnack-"))
	require.Empty(t, s.Public(""))
	for _, text := range []string{"NVIDIA H200 on gpuhost17", "10.0.0.1", "line\nline", "$(x)", "/usr/lib/libnccl.so"} {
		require.Equal(t, provenance.Withheld, s.Public(text), text)
	}
	require.Equal(t, "libnccl.so.2.28.3", s.SOName("/home/someone/lib/libnccl.so.2.28.3"))
	require.Equal(t, "libtorch.so", s.SOName("libtorch.so"))
	require.Empty(t, s.SOName("/home/someone/thing.bin"))
	require.Empty(t, s.SOName("lib10.0.0.1.so"))
	require.Equal(t, "0123abcd", s.BuildID("0123abcd"))
	require.Empty(t, s.BuildID("gpuhost17"))
}
