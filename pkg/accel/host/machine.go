package host

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machine reads what the kernel says of this host from files under root ("/"
// but in tests).
type machine struct{ root string }

func (m machine) read(path string) (string, error) {
	data, err := os.ReadFile(filepath.Join(m.root, path))
	return strings.TrimSpace(string(data)), err
}

// memory returns the available and the total bytes, no more than the control
// group leaves.
func (m machine) memory() (free, total int64, err error) {
	f, err := os.Open(filepath.Join(m.root, "proc/meminfo"))
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); n == 1 {
			total = kib << 10
		}
		if n, _ := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kib); n == 1 {
			free = kib << 10
		}
	}
	if total == 0 || free == 0 {
		return 0, 0, errors.New("proc/meminfo tells no MemTotal or no MemAvailable")
	}
	limit, errLimit := m.number("sys/fs/cgroup/memory.max")
	used, errUsed := m.number("sys/fs/cgroup/memory.current")
	if errLimit == nil && errUsed == nil {
		total = min(total, limit)
		free = min(free, max(0, limit-used))
	}
	return free, total, nil
}

func (m machine) number(path string) (int64, error) {
	text, err := m.read(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// product is the model of the processor, or its architecture where the kernel
// does not name it.
func (m machine) product() string {
	text, err := m.read("proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(text) {
			key, value, ok := strings.Cut(line, ":")
			if ok && strings.TrimSpace(key) == "model name" {
				return strings.Join(strings.Fields(value), " ")
			}
		}
	}
	return arch()
}

func arch() string {
	if runtime.GOARCH == "amd64" {
		return "x86-64"
	}
	return runtime.GOARCH
}

// lastLevelCache is the size of the largest cache of a CPU, 0 where unknown.
func (m machine) lastLevelCache(cpu int) int64 {
	sizes, _ := filepath.Glob(filepath.Join(m.root, fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index*/size", cpu)))
	var largest int64
	for _, path := range sizes {
		var kib int64
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if n, _ := fmt.Sscanf(string(data), "%dK", &kib); n == 1 {
			largest = max(largest, kib<<10)
		}
	}
	return largest
}

// numaNode is the node of a CPU, −1 where unknown.
func (m machine) numaNode(cpu int) int {
	nodes, _ := filepath.Glob(filepath.Join(m.root, fmt.Sprintf("sys/devices/system/cpu/cpu%d/node[0-9]*", cpu)))
	if len(nodes) == 0 {
		return -1
	}
	slices.Sort(nodes)
	n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(nodes[0]), "node"))
	if err != nil {
		return -1
	}
	return n
}

func (m machine) kernel() string {
	release, err := m.read("proc/sys/kernel/osrelease")
	if err != nil {
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
