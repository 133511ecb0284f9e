package ep

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
)

// recordedPrefix begins the name of a routing that was read from a file. The beginning of
// its digest follows.
const recordedPrefix = "file-"

// Record makes experts, TopK of each token, the routing of the case. The case keeps the
// slice.
func (e *Block) Record(experts []int) {
	sum := sha256.New()
	var id [8]byte
	for _, expert := range experts {
		binary.LittleEndian.PutUint64(id[:], uint64(expert))
		sum.Write(id[:])
	}
	e.RoutingExperts, e.RoutingSHA256 = experts, hex.EncodeToString(sum.Sum(nil))
	e.Routing = recordedPrefix + e.RoutingSHA256[:12]
}

// CheckRecorded returns an error unless name, digest and experts of a recorded routing are
// of each other, or there are none.
func (e *Block) CheckRecorded() error {
	if len(e.RoutingExperts) == 0 && e.RoutingSHA256 == "" && !strings.HasPrefix(e.Routing, recordedPrefix) {
		return nil
	}
	var want Block
	want.Record(e.RoutingExperts)
	if e.Routing != want.Routing || e.RoutingSHA256 != want.RoutingSHA256 {
		return errors.New("routing, routing_sha256 and routing_experts are not of each other")
	}
	return nil
}
