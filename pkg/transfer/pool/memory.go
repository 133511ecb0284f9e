// Package pool is the memory of ranks between which data move: every word names where it comes
// from, so that a check can say what is wrong with the words that arrived.
package pool

import (
	"errors"
	"unsafe"
)

// Memory is the words of a pool, of 8 bytes each, as the rank that has the pool makes and
// checks them.
type Memory interface {
	// Words is how many there are.
	Words() int
	// Paint writes base+i to each word i.
	Paint(base uint64) error
	// Wrong returns the numbers of the stretches with a wrong word, ascending. The
	// stretches ascend and do not overlap.
	Wrong(stretches []Stretch) ([]int, error)
	// Read returns n words from word at on, for the caller to read alone.
	Read(at, n int) ([]uint64, error)
	Write(at int, words []uint64) error
	// CheckedBy is where Wrong compares: host or device.
	CheckedBy() string
}

// Stretch is words of a pool that count up.
type Stretch struct {
	At, N int    // its first word, and how many it has
	Want  uint64 // value of the first word
}

// ErrDisagree is wrapped by errors of two checks of the same words that differ: nothing is
// known of the words.
var ErrDisagree = errors.New("the checks of a pool disagree")

// Counts reports whether words are those of the stretch from its word skip on.
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
