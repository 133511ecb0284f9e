package engine

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// farNode returns the lowest NUMA node of the machine other than own, the device's node.
func farNode(own int, nodes []int) (int, error) {
	if own < 0 {
		return 0, errors.New("the NUMA node of the device is unknown: measure pinned host memory alone")
	}
	others := slices.DeleteFunc(slices.Clone(nodes), func(n int) bool { return n == own })
	if len(others) == 0 {
		return 0, errors.New("this machine has one NUMA node: measure pinned host memory alone")
	}
	return slices.Min(others), nil
}

// Constants of the system call mbind.
const (
	mpolBind     = 2
	mpolMFStrict = 1
)

// onNode returns memory of the process with all pages on a NUMA node, and the function that frees it.
func onNode(node int, bytes int64) (unsafe.Pointer, func() error, error) {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, fmt.Errorf("allocate %d bytes of host memory: %w", bytes, err)
	}
	free := func() error { return unix.MunmapPtr(p, uintptr(bytes)) }
	if err := bind(p, bytes, node); err != nil {
		return nil, nil, errors.Join(err, free())
	}
	return p, free, nil
}

// bind makes the kernel take the pages of untouched memory from a NUMA node. It touches all pages, and checks the
// node of the first and the last page.
func bind(p unsafe.Pointer, bytes int64, node int) error {
	const bits, pageBytes = 64, 4096
	var mask [16]uint64
	if node >= len(mask)*bits {
		return fmt.Errorf("NUMA node %d exceeds the supported maximum of %d", node, len(mask)*bits-1)
	}
	mask[node/bits] = 1 << (node % bits)
	if _, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(p), uintptr(bytes), mpolBind, uintptr(unsafe.Pointer(&mask)), uintptr(len(mask)*bits), mpolMFStrict); errno != 0 {
		return fmt.Errorf("bind memory to NUMA node %d: mbind: %w; in a container, start it with --cap-add SYS_NICE", node, errno)
	}
	memory := unsafe.Slice((*byte)(p), bytes)
	for i := int64(0); i < bytes; i += pageBytes {
		memory[i] = 1
	}
	pages := [2]unsafe.Pointer{p, unsafe.Add(p, (bytes-1)/pageBytes*pageBytes)}
	var at [2]int32
	if _, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, uintptr(len(pages)), uintptr(unsafe.Pointer(&pages)), 0, uintptr(unsafe.Pointer(&at)), 0); errno != 0 {
		return fmt.Errorf("find the NUMA node of memory: move_pages: %w", errno)
	}
	for _, got := range at {
		if int(got) != node {
			return fmt.Errorf("memory bound to NUMA node %d is on node %d", node, got)
		}
	}
	return nil
}
