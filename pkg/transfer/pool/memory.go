// Package pool is the memory of ranks between which data move. Every word names its origin, so that a
// check can classify wrong words.
package pool

import (
	"errors"
	"unsafe"
)

// Memory is the words of a pool, of 8 bytes each. The rank that owns the pool writes and checks them.
type Memory interface {
	// Words returns the number of words.
	Words() int
	// Paint writes base+i to each word i.
	Paint(base uint64) error
	// Wrong returns the indices of the stretches with a wrong word, ascending. The stretches must
	// ascend and not overlap.
	Wrong(stretches []Stretch) ([]int, error)
	// Read returns n words from word at on; the caller must not modify them.
	Read(at, n int) ([]uint64, error)
	Write(at int, words []uint64) error
	// CheckedBy is where Wrong compares: host or device.
	CheckedBy() string
}

// Stretch is a range of ascending words of a pool.
type Stretch struct {
	At, N int    // index of its first word, and number of words
	Want  uint64 // value of the first word
}

// ErrDisagree is wrapped if two checks of the same words differ. The state of the words is then unknown.
var ErrDisagree = errors.New("the checks of a pool disagree")

// Counts reports whether words match the stretch from its word skip on.
func (s Stretch) Counts(words []uint64, skip int) bool {
	want := s.Want + uint64(skip)
	for i, w := range words {
		if w != want+uint64(i) {
			return false
		}
	}
	return true
}

// HostMemory is a pool that this process can address.
func HostMemory(bytes []byte) Memory {
	return hostMemory(unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(bytes))), len(bytes)/WordBytes))
}

type hostMemory []uint64

func (m hostMemory) Words() int { return len(m) }

func (m hostMemory) Paint(base uint64) error {
	for i := range m {
		m[i] = base + uint64(i)
	}
	return nil
}

func (m hostMemory) Wrong(stretches []Stretch) (wrong []int, err error) {
	for i, s := range stretches {
		if !s.Counts(m[s.At:s.At+s.N], 0) {
			wrong = append(wrong, i)
		}
	}
	return wrong, nil
}

func (m hostMemory) Read(at, n int) ([]uint64, error) { return m[at : at+n], nil }

func (m hostMemory) Write(at int, words []uint64) error {
	copy(m[at:], words)
	return nil
}

func (hostMemory) CheckedBy() string { return "host" }
