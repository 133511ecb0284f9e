// Package sysfs reads the small files of /proc and /sys in which the kernel describes the
// machine. It treats missing files and files with unexpected content as empty.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Root is a directory that contains the file systems of a machine: "proc", "sys", "etc".
// Methods take the elements of a path below it.
type Root struct{ fs.FS }

// Here returns the root of this machine.
func Here() Root { return Root{os.DirFS("/")} }

// Bytes returns the content of a file, or nil if it cannot be read.
func (r Root) Bytes(elem ...string) []byte {
	data, err := fs.ReadFile(r.FS, path.Join(elem...))
	if err != nil {
		return nil
	}
	return data
}

// Text returns the content of a file without surrounding white space.
func (r Root) Text(elem ...string) string { return strings.TrimSpace(string(r.Bytes(elem...))) }

// Number returns the number in a file that contains one decimal number.
func (r Root) Number(elem ...string) (n int64, ok bool) {
	n, err := strconv.ParseInt(r.Text(elem...), 10, 64)
	return n, err == nil
}

// Exists reports whether a file or directory exists.
func (r Root) Exists(elem ...string) bool {
	_, err := fs.Stat(r.FS, path.Join(elem...))
	return err == nil
}

// List returns the sorted names in a directory.
func (r Root) List(elem ...string) []string {
	entries, err := fs.ReadDir(r.FS, path.Join(elem...))
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// Fields returns the values, by name, of a file whose lines are a name, a separator and a
// value. Surrounding white space is removed. If a name is repeated, the first line counts.
func (r Root) Fields(separator string, elem ...string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(r.Text(elem...)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), separator)
		name = strings.TrimSpace(name)
		if _, seen := out[name]; ok && !seen {
			out[name] = strings.TrimSpace(value)
		}
	}
	return out
}

// Counts returns the Fields that are decimal numbers.
func (r Root) Counts(separator string, elem ...string) map[string]uint64 {
	out := map[string]uint64{}
	for name, value := range r.Fields(separator, elem...) {
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			out[name] = n
		}
	}
	return out
}

// Memory returns the bytes in a line of /proc/meminfo, such as MemTotal.
func (r Root) Memory(name string) (bytes int64, ok bool) {
	kib, isKiB := strings.CutSuffix(r.Fields(":", "proc/meminfo")[name], " kB")
	n, err := strconv.ParseInt(kib, 10, 64)
	return n << 10, err == nil && isKiB
}

// AvailableMemory returns the memory that is available without swapping, and the total memory, in
// bytes. Both are limited by the control group.
func (r Root) AvailableMemory() (free, total int64, err error) {
	total, hasTotal := r.Memory("MemTotal")
	free, hasFree := r.Memory("MemAvailable")
	if !hasTotal || !hasFree {
		return 0, 0, errors.New("/proc/meminfo lacks MemTotal or MemAvailable")
	}
	limit, hasLimit := r.Number("sys/fs/cgroup/memory.max")
	used, hasUsed := r.Number("sys/fs/cgroup/memory.current")
	if hasLimit && hasUsed {
		total = min(total, limit)
		free = min(free, max(0, limit-used))
	}
	return free, total, nil
}

// maxNumber limits the numbers in a list. It is above the number of any processor or rank.
const maxNumber = 1 << 16

// CPUs returns the processors in a file with a list; see Numbers.
func (r Root) CPUs(elem ...string) []int { return Numbers(r.Text(elem...)) }

// Numbers returns the numbers in a list such as 0-3,8,10-11, or nil if the list is malformed.
func Numbers(list string) []int {
	var numbers []int
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from > to || to >= maxNumber {
			return nil
		}
		for n := from; n <= to; n++ {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// OnlineCPUs returns the processors that are online, or nil if the kernel does not report
// them.
func (r Root) OnlineCPUs() []int { return r.CPUs("sys/devices/system/cpu/online") }

const nodes = "sys/devices/system/node"

// NUMANodes returns the NUMA nodes of the machine, in the order of their names.
func (r Root) NUMANodes() []int {
	var found []int
	for _, name := range r.List(nodes) {
		if number, ok := strings.CutPrefix(name, "node"); ok {
			if node, err := strconv.Atoi(number); err == nil {
				found = append(found, node)
			}
		}
	}
	return found
}

// NUMACPUs returns the processors of a NUMA node, or nil if the node does not exist.
func (r Root) NUMACPUs(node int) []int { return r.CPUs(nodes, fmt.Sprintf("node%d", node), "cpulist") }

// NUMANode returns the NUMA node to which all of cpus belong, or −1 if there is none.
func (r Root) NUMANode(cpus ...int) int {
	for _, node := range r.NUMANodes() {
		of := r.NUMACPUs(node)
		if len(cpus) > 0 && !slices.ContainsFunc(cpus, func(cpu int) bool { return !slices.Contains(of, cpu) }) {
			return node
		}
	}
	return -1
}
