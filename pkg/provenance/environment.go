package provenance

import (
	"cmp"
	"crypto/sha256"
	_ "embed" // for variables
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Withheld replaces a value that does not have a published form.
const Withheld = "withheld"

// WithheldVariables is the entry of a published environment with the number of relevant
// variables whose names are unknown. It includes a digest, so that runs with different ones
// have different comparison keys.
const WithheldVariables = "CX_WITHHELD"

// Preload and Tunables are variables of the dynamic loader and of the C library.
const (
	Preload  = "LD_PRELOAD"
	Tunables = "GLIBC_TUNABLES"
)

// ProcessorsVariable is the entry of a published environment with the number of processors that the ranks of a node
// share, if there are too few.
const ProcessorsVariable = "CX_PROCESSORS"

// DeviceVariable is the entry of a published environment with the variant of the devices; see inventory.GPU.Variant.
const DeviceVariable = "CX_DEVICE"

//go:embed variables.txt
var variables string

// known returns the names in variables.txt.
var known = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(variables) {
		if words := strings.Fields(line); words[0] != "#" {
			for _, rest := range words[1:] {
				out[words[0]+rest] = true
			}
		}
	}
	return out
})

// prefixes are the prefixes of the relevant variables, which change what a communication library
// does, whether their names are known or not.
var prefixes = []string{
	"NCCL_", "RCCL_", "NVSHMEM_", "MSCCL_", "MSCCLPP_", "UCX_", "ROCSHMEM_", "MORI_", "UCCL_", "DEEPEP_", "EP_",
	"FLASHINFER_", "MC_", "NIXL_", "HSA_", "GPU_MAX_HW_QUEUES", "CUDA_DEVICE_MAX_CONNECTIONS",
	"CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING", "HIP_FORCE_DEV_KERNARG", "OMP_NUM_THREADS",
	"TORCH_NCCL_", "TORCH_SYMMMEM", "FI_", "IBV_", "MLX5_", "EP_NIC_NAME", "EP_OVERRIDE_RDMA_SL",
}

// ofTests is the prefix of nccl-tests' variables, which no library reads.
const ofTests = "NCCL_TESTS_"

// Relevant returns the elements of environ ("NAME=value") that change what a communication
// library does.
func Relevant(environ []string) (relevant []string) {
	for _, kv := range environ {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(kv, p) }) && !strings.HasPrefix(kv, ofTests) {
			relevant = append(relevant, kv)
		}
	}
	return relevant
}

// identities matches variables that name a host or a secret by their purpose, whatever
// their value looks like.
var identities = regexp.MustCompile(`(^|_)(HOSTS?|HOSTID|HOSTNAME|ADDR|ADDRESS|COMM_ID|TOKEN|SECRET|PASS|PASSWD|PASSWORD|CREDENTIALS?|KEY|USER|FILE|PATH|DIR|URL|URI)(_|$)`)

// The published forms of values: numbers with units, switches, and words of the libraries'
// own vocabularies, in lists.
var (
	separators = regexp.MustCompile(`[,;:=^+|\s]+`)
	number     = regexp.MustCompile(`(?i)^-?(0x[0-9a-f]{1,4}|[0-9]{1,7}(\.[0-9]{1,6})?)(us|ms|s|m|b|k|kb|kib|mb|mib|g|gb|gib)?$`)
	quantity   = regexp.MustCompile(`^[0-9]{1,12}$`) // for variables whose name marks them as quantities
	quantities = regexp.MustCompile(`SIZE|BYTES|THRESH|LIMIT|HEAP|GRANULARITY|MAX_MEMORY`)
	device     = regexp.MustCompile(`^(mlx[45]|mlx5_bond|bnxt_re|irdma|rdmap?|efa|ionic|hfi1|rocep?|eth|ib|bond|hsn|eno|ens)_?[0-9]{1,3}$`)
	words      = strings.Fields(`
		true false yes no y n on off auto default none all any inf unset
		ring tree collnet collnetdirect collnetchain nvls nvlstree pat allreduce allgather reducescatter broadcast reduce alltoall
		ll ll128 simple direct symmetric
		loc nvl pix pxb phb sys c2c p2p net shm ib ibext roce socket tcp udp ud rc dc dct rc_x ud_x dc_x rc_mlx5 dc_mlx5 self sm posix sysv cma knem xpmem
		cuda cuda_copy cuda_ipc gdr_copy rocm rocm_copy rocm_ipc gga verbs ofi efa ibrc ibdevx ibgda ucx libfabric
		version warn info abort trace init coll env tuning graph bootstrap proxy alloc call nvtx
		eth ib bond lo mlx5 mlx4 bnxt_re hsn eno ens docker veth
		lazy eager fastest_first pci_bus_id parallel group split
		gpu cpu host device global local vmm malloc fabric fd`)
)

// Environment returns the part of environ ("NAME=value") that documents contain, and of found, which
// has the settings that ranks found in addition to it: the variables with known names. If a name
// occurs twice, the later value counts. A value without a published form becomes Withheld.
// WithheldVariables stands for the relevant variables with unknown names.
func (s *Screen) Environment(environ []string, found map[string]string) map[string]string {
	out, unknown := map[string]string{}, map[string]string{}
	environ = Relevant(environ)
	for name, value := range found {
		environ = append(environ, name+"="+value)
	}
	for _, kv := range environ {
		name, value, ok := strings.Cut(kv, "=")
		switch value = s.published(name, value); {
		case !ok:
		case known()[name] && s.Check(name) == nil:
			out[name] = value
		default:
			unknown[name] = value
		}
	}
	if len(unknown) > 0 {
		out[WithheldVariables] = s.withheld(unknown)
	}
	return out
}

// published returns the published form of the value of a variable, or Withheld.
func (s *Screen) published(name, value string) string {
	switch {
	case name == DeviceVariable:
		return s.Public(value)
	case name == Preload:
		return s.libraries(value)
	case name == Tunables && tunable.MatchString(value) && s.Check(value) == nil:
		return value
	case name == Tunables || !s.publishes(name, value):
		return Withheld
	}
	return value
}

// withheld returns the number of variables, and a digest in which all private names and
// values are the same.
func (s *Screen) withheld(unknown map[string]string) string {
	var lines []string
	for name, value := range unknown {
		if !variable.MatchString(name) || s.Check(name) != nil {
			name = Withheld
		}
		lines = append(lines, name+"="+value)
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return strconv.Itoa(len(lines)) + ", sha256 " + hex.EncodeToString(sum[:8])
}

// tunable matches a value of Tunables, such as glibc.malloc.hugetlb=1:glibc.pthread.rseq=0.
var tunable = regexp.MustCompile(`^(glibc\.[a-z0-9_.]{1,40}=[A-Za-z0-9_,+-]{0,64}(:|$))+$`)

// preloads matches the names of libraries that are often preloaded.
var preloads = regexp.MustCompile(`^lib(tcmalloc|tcmalloc_minimal|jemalloc|mimalloc|hugetlbfs|stdc\+\+|gomp|iomp5|omp|asan|tsan|numa|` +
	`nccl|nccl-net|rccl|cudart|nvshmem_host|fabric|ibverbs|mpi|ucs|fakeroot-sysv|eatmydata|darshan)\.so(\.[0-9]+)*$`)

// libraries returns the published form of a value of Preload: NAME:BUILD-ID for each PATH:BUILD-ID. An unknown name
// and an invalid id become Withheld.
func (s *Screen) libraries(value string) string {
	var files []string
	for file := range strings.FieldsSeq(value) {
		name, id, _ := strings.Cut(file[strings.LastIndexByte(file, '/')+1:], ":")
		if !preloads.MatchString(name) {
			name = Withheld
		}
		files = append(files, name+":"+cmp.Or(s.BuildID(id), Withheld))
	}
	return strings.Join(files, " ")
}

var variable = regexp.MustCompile(`^[A-Z][A-Z0-9_]{1,63}$`)

func (s *Screen) publishes(name, value string) bool {
	if value == "" {
		return true
	}
	if identities.MatchString(name) || len(value) > 256 {
		return false
	}
	for _, w := range separators.Split(value, -1) {
		if quantities.MatchString(name) && quantity.MatchString(w) {
			continue
		}
		if w != "" && !number.MatchString(w) && !device.MatchString(w) && !slices.Contains(words, strings.ToLower(w)) {
			return false
		}
	}
	return s.Check(value) == nil
}
