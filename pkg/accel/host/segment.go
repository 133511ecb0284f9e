package host

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Handle identifies a segment to the other processes of this host. It is valid as long as
// its owner lives.
type Handle struct {
	PID   int   `json:"pid"`
	FD    int   `json:"fd"`
	Bytes int64 `json:"bytes"`
}

// Segment is memory that several processes of one host map. It has no name in a file system, so
// nothing remains when its processes are killed, and a small /dev/shm in a container does not limit
// it.
type Segment struct {
	base  unsafe.Pointer
	bytes int64
	fd    int // −1 if another process owns it
}

const pageBytes = 4096

// NewSegment creates a segment of zeros. A page takes up memory when it is first written.
func NewSegment(name string, bytes int64) (*Segment, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create shared memory %s: %w", name, err)
	}
	if err := unix.Ftruncate(fd, bytes); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("create shared memory %s of %d bytes: %w", name, bytes, err)
	}
	s, err := mapSegment(fd, bytes)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	s.fd = fd
	return s, nil
}

// OpenSegment maps the segment of another process, or maps one of this process again.
func OpenSegment(h Handle) (*Segment, error) {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", h.PID, h.FD), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open shared memory of process %d: %w", h.PID, err)
	}
	defer f.Close()
	return mapSegment(int(f.Fd()), h.Bytes)
}

func mapSegment(fd int, bytes int64) (*Segment, error) {
	base, err := unix.MmapPtr(fd, 0, nil, uintptr(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of shared memory: %w", bytes, err)
	}
	return &Segment{base: base, bytes: bytes, fd: -1}, nil
}

// Base returns the address of the segment in this process.
func (s *Segment) Base() unsafe.Pointer { return s.base }

// Handle returns the argument of OpenSegment for other processes. Only the owner may call it.
func (s *Segment) Handle() Handle { return Handle{PID: os.Getpid(), FD: s.fd, Bytes: s.bytes} }

// Populate maps every page of a range for writing, so that later accesses cause no page
// faults.
func (s *Segment) Populate(offset, bytes int64) error {
	start := offset &^ (pageBytes - 1)
	window := unsafe.Slice((*byte)(unsafe.Add(s.base, start)), offset+bytes-start)
	err := unix.Madvise(window, unix.MADV_POPULATE_WRITE)
	if err == unix.EINVAL { // before Linux 5.14
		for at := 0; at < len(window); at += pageBytes {
			p := &window[at]
			*p |= 0 // writes the page without changing it
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("populate %d bytes of shared memory: %w", bytes, err)
	}
	return nil
}

// release frees the memory of a range, which then reads as zeros in every process. Only the
// owner may call it.
func (s *Segment) release(offset, bytes int64) error {
	// Unlike fallocate, which does the same, madvise is not denied in containers.
	return unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(s.base, offset)), bytes), unix.MADV_REMOVE)
}

// Close unmaps the segment in this process. The memory is freed with its last mapping.
func (s *Segment) Close() error {
	err := unix.MunmapPtr(s.base, uintptr(s.bytes))
	if s.fd >= 0 {
		if e := unix.Close(s.fd); err == nil {
			err = e
		}
	}
	if err != nil {
		return fmt.Errorf("unmap shared memory: %w", err)
	}
	return nil
}
