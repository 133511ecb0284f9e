package sysfs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxNumber is above the number of any processor or rank.
const maxNumber = 1 << 16

// CPUs returns the processors in a file with a list; see Numbers.
func (r Root) CPUs(elem ...string) []int { return Numbers(r.Text(elem...)) }

// Numbers returns the numbers in a list such as 0-3,8,10-11; none if the list is malformed.
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

// OnlineCPUs returns the processors that are online; none if the kernel does not report
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

// NUMACPUs returns the processors of a NUMA node; none if there is no such node.
func (r Root) NUMACPUs(node int) []int { return r.CPUs(nodes, fmt.Sprintf("node%d", node), "cpulist") }

// NUMANode returns the node that all of cpus belong to, −1 if there is none.
func (r Root) NUMANode(cpus ...int) int {
	for _, node := range r.NUMANodes() {
		of := r.NUMACPUs(node)
		if len(cpus) > 0 && !slices.ContainsFunc(cpus, func(cpu int) bool { return !slices.Contains(of, cpu) }) {
			return node
		}
	}
	return -1
}
