package preflight

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/inventory"
)

// withInterpreter appends a need. It inserts the Python interpreter before the first Python module.
func withInterpreter(needs []*backend.Need, n *backend.Need) []*backend.Need {
	if n.Module != nil && !slices.Contains(needs, python) {
		needs = append(needs, python)
	}
	return append(needs, n)
}

// needs returns the libraries of the vendor and of the backend that the backend requires on GPUs of a
// vendor, or on a host.
func (e *Examiner) needs(b *catalog.Backend, on string) (all []*backend.Need) {
	v := vendors[on]
	if v != nil {
		all = append(all, v.driver)
	}
	of, _ := e.backends.Find(b.Name)
	for _, n := range of.Needs {
		if n.Vendor == "" || n.Vendor == on {
			all = withInterpreter(all, n)
		}
	}
	if v != nil && of.Compiles {
		all = append(all, v.compiler)
	}
	return all
}

func (e *Examiner) missingLibraries(b *catalog.Backend, on string) []Finding {
	var found []Finding
	of, _ := e.backends.Find(b.Name)
	for _, n := range e.needs(b, on) {
		switch l := e.libraries[n.Kind]; {
		case !l.Found():
			f := Finding{State: Missing, Text: l.Err.Error(), Variable: variable(l.Err), Held: l.Held}
			if !slices.Contains(found, f) { // without Python, all modules have the same finding
				found = append(found, f)
			}
		case l.Drives != "" && l.Drives != on:
			found = append(found, Finding{State: Missing, Text: fmt.Sprintf("%s drives %s GPUs: set %s to one that was built for %s",
				e.named(n), vendors[l.Drives].label, n.Variable, vendors[on].label)})
		}
	}
	if len(found) == 0 && of.Loopback {
		found = loopback()
	}
	if v := vendors[on]; v != nil && !of.Compiles {
		if l := e.libraries[v.compiler.Kind]; !l.Found() {
			found = append(found, Finding{
				State: Note, Text: fmt.Sprintf("%s; until then results are checked on host copies instead of on the device", l.Err), Variable: variable(l.Err),
			})
		}
	}
	return found
}

// variable returns the environment variable that names the unusable library of err, or "".
func variable(err error) string {
	if named, ok := errors.AsType[*dl.NamedError](err); ok {
		return named.Env
	}
	return ""
}

// smallSharedMemory is more than the default size of /dev/shm in containers, and less than
// communicators of a whole machine require. It also applies to locked memory.
const smallSharedMemory = 1 << 30

// settings returns notes on settings of the machine with which backends on GPUs fail late or run slowly.
func (e *Examiner) settings(vendor string) []Finding {
	var notes []string
	for i := range e.inventory.GPUs {
		if g := &e.inventory.GPUs[i]; g.Vendor == vendor && g.Partition == "mig" {
			notes = append(notes, "MIG is on, and MIG instances cannot reach each other: turn it off with nvidia-smi -mig 0")
			break
		}
	}
	if bytes, ok := e.sharedMemoryBytes(); ok && bytes < smallSharedMemory {
		notes = append(notes, fmt.Sprintf("/dev/shm has %d MiB: start the container with --ipc=host or --shm-size=8g", bytes>>20))
	}
	if e.activeRDMA() {
		if vendor == inventory.NVIDIA && !e.root.Exists("sys/module/nvidia_peermem") && !e.root.Exists("sys/module/nv_peer_mem") {
			notes = append(notes, "RDMA adapters are active, but nvidia_peermem is not loaded: without it or DMA-BUF, data between machines goes through host memory")
		}
		if limit, ok := e.lockedMemory(); ok && limit < smallSharedMemory {
			notes = append(notes, fmt.Sprintf("RDMA adapters are active, but at most %d KiB of memory may be locked: raise it with ulimit -l unlimited", limit>>10))
		}
	}
	var found []Finding
	for _, text := range notes {
		found = append(found, Finding{State: Note, Text: text})
	}
	return found
}

func (e *Examiner) activeRDMA() bool {
	return slices.ContainsFunc(e.inventory.NICs, func(n inventory.NIC) bool { return n.Active })
}

// sharedMemoryBytes returns the size of /dev/shm from its mount options.
func (e *Examiner) sharedMemoryBytes() (int64, bool) {
	for line := range strings.Lines(e.root.Text("proc/self/mounts")) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[1] != "/dev/shm" {
			continue
		}
		for option := range strings.SplitSeq(fields[3], ",") {
			if kib, ok := strings.CutPrefix(option, "size="); ok {
				n, err := strconv.ParseInt(strings.TrimSuffix(kib, "k"), 10, 64)
				return n << 10, err == nil
			}
		}
	}
	return 0, false
}

// lockedMemory returns the maximum memory that this process may lock, in bytes. ok is false if it is
// unlimited or unknown.
func (e *Examiner) lockedMemory() (bytes int64, ok bool) {
	for line := range strings.Lines(e.root.Text("proc/self/limits")) {
		if rest, ok := strings.CutPrefix(line, "Max locked memory"); ok {
			soft, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			n, err := strconv.ParseInt(soft, 10, 64) // fails for "unlimited"
			return n, err == nil
		}
	}
	return 0, false
}
