package provenance

import (
	"regexp"
	"slices"
	"strings"
)

// Withheld stands for a value that is not of a published form.
const Withheld = "withheld"

// prefixes name the variables that documents carry: those that change what a
// communication library does.
var prefixes = []string{
	"NCCL_", "RCCL_", "NVSHMEM_", "MSCCL_", "MSCCLPP_", "UCX_", "ROCSHMEM_", "MORI_", "UCCL_", "DEEPEP_",
	"FLASHINFER_", "MC_", "NIXL_", "HSA_", "GPU_MAX_HW_QUEUES", "CUDA_DEVICE_MAX_CONNECTIONS",
	"CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING", "HIP_FORCE_DEV_KERNARG", "OMP_NUM_THREADS",
	"TORCH_NCCL_", "TORCH_SYMMMEM", "FI_", "IBV_", "MLX5_",
}

// identities are variables that name a host or a secret by their purpose,
// whatever their value looks like.
var identities = regexp.MustCompile(`(^|_)(HOSTS?|HOSTID|HOSTNAME|ADDR|ADDRESS|COMM_ID|TOKEN|SECRET|PASS|PASSWD|PASSWORD|CREDENTIALS?|KEY|USER|FILE|PATH|DIR|URL|URI)(_|$)`)

// values is the form of what is published: numbers with units, switches, and
// words of the libraries' own vocabularies, in lists.
var (
	separators = regexp.MustCompile(`[,;:=^+|\s]+`)
	number     = regexp.MustCompile(`(?i)^-?(0x[0-9a-f]{1,8}|[0-9]{1,12}(\.[0-9]{1,6})?)(us|ms|s|m|b|k|kb|kib|mb|mib|g|gb|gib)?$`)
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

// Environment returns the part of environ ("NAME=value") that documents carry.
// A variable that counts but whose value is not of a published form keeps its
// name and has the value Withheld. One whose name is private is left out.
func (s *Screen) Environment(environ []string) map[string]string {
	out := map[string]string{}
	for _, kv := range environ {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) ||
			!variable.MatchString(name) || s.Check(name) != nil {
			continue
		}
		if !s.publishes(name, value) {
			value = Withheld
		}
		out[name] = value
	}
	return out
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
		if w != "" && !number.MatchString(w) && !device.MatchString(w) && !slices.Contains(words, strings.ToLower(w)) {
			return false
		}
	}
	return s.Check(value) == nil
}
