package host

import (
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/sysfs"
)

// machine reads what the kernel reports about this host.
type machine struct{ sysfs.Root }

// product returns the model of the processor, or its architecture if the kernel reports no
// model.
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

// lastLevelCache returns the size in bytes of the largest cache of a processor, or 0 if it
// is unknown.
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
	// Keep only the numbers: the rest of a release may name its builder.
	end := strings.IndexFunc(release, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end >= 0 {
		release = release[:end]
	}
	return "Linux " + strings.TrimSuffix(release, ".")
}

// pin restricts the calling OS thread to one processor.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", cpu, err)
	}
	return nil
}
