package host

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/sysfs"
)

// machine is what the kernel says of this host.
type machine struct{ sysfs.Root }

// memory returns the available and the total bytes, no more than the control
// group leaves.
func (m machine) memory() (free, total int64, err error) {
	total, hasTotal := m.Memory("MemTotal")
	free, hasFree := m.Memory("MemAvailable")
	if !hasTotal || !hasFree {
		return 0, 0, errors.New("/proc/meminfo lacks MemTotal or MemAvailable")
	}
	limit, hasLimit := m.Number("sys/fs/cgroup/memory.max")
	used, hasUsed := m.Number("sys/fs/cgroup/memory.current")
	if hasLimit && hasUsed {
		total = min(total, limit)
		free = min(free, max(0, limit-used))
	}
	return free, total, nil
}

// product is the model of the processor, or its architecture where the kernel
// does not name it.
func (m machine) product() string {
	if model := m.Fields(":", "proc/cpuinfo")["model name"]; model != "" {
		return strings.Join(strings.Fields(model), " ")
	}
	return arch()
}

func arch() string {
	if runtime.GOARCH == "amd64" {
		return "x86-64"
	}
	return runtime.GOARCH
}

const cpuDir = "sys/devices/system/cpu"

// lastLevelCache is the size of the largest cache of a CPU, 0 where unknown.
func (m machine) lastLevelCache(cpu int) int64 {
	caches := fmt.Sprintf("%s/cpu%d/cache", cpuDir, cpu)
	var largest int64
	for _, name := range m.List(caches) {
		var kib int64
		if n, _ := fmt.Sscanf(m.Text(caches, name, "size"), "%dK", &kib); n == 1 {
			largest = max(largest, kib<<10)
		}
	}
	return largest
}

func (m machine) kernel() string {
	release := m.Text("proc/sys/kernel/osrelease")
	if release == "" {
		return "Linux"
	}
	// Only the numbers: the rest of a release may name its builder.
	end := strings.IndexFunc(release, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end >= 0 {
		release = release[:end]
	}
	return "Linux " + strings.TrimSuffix(release, ".")
}

// pin keeps the calling OS thread on one CPU.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", cpu, err)
	}
	return nil
}
