package workload

import (
	"encoding/binary"
	"hash"

	"golang.org/x/crypto/blake2b"
)

// Streams of the counter.
const (
	streamExpert = 0
	streamWeight = 1
	// streamPopularity has numbers of experts, in the place of tokens.
	streamPopularity = 2
)

// counter is the keyed random source of every routing. Its output is the 8-byte BLAKE2b
// digest, read as a little-endian integer, of four coordinates written as little-endian
// uint64. The key is the seed as 8 little-endian bytes. A draw depends only on its
// coordinates, not on earlier draws.
type counter struct {
	hash    hash.Hash
	message [32]byte
	digest  [8]byte
}

func newCounter(seed uint64) *counter {
	h, err := blake2b.New(8, binary.LittleEndian.AppendUint64(nil, seed))
	if err != nil {
		panic(err) // cannot happen: only the sizes can be invalid, and they are constant
	}
	return &counter{hash: h}
}

func (c *counter) draw(token, slot, attempt, stream int) uint64 {
	for i, coordinate := range [4]int{token, slot, attempt, stream} {
		binary.LittleEndian.PutUint64(c.message[8*i:], uint64(coordinate))
	}
	c.hash.Reset()
	c.hash.Write(c.message[:])
	return binary.LittleEndian.Uint64(c.hash.Sum(c.digest[:0]))
}
