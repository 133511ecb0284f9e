package runner

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// owned is an engine that tracks the users of its pool. It refuses misuse that libraries accept: NIXL
// registers memory twice, and moves the data of a pool that its owner has freed.
type owned struct {
	Engine
	pool  bool
	users int // ranks that have the metadata of the pool
}

func (o *owned) Register(ctx context.Context, bytes int64, handle string) (pool.Memory, error) {
	if o.pool {
		return nil, &rank.Error{Reason: result.ReasonRefused.With("pool registered twice"), Err: errors.New("a rank has one pool at a time: unregister it first")}
	}
	o.pool = true // also if Register fails: Unregister frees what it has created
	return o.Engine.Register(ctx, bytes, handle)
}

// Metadata implements Engine. Its holder may use the pool until left.
func (o *owned) Metadata() ([]byte, error) {
	o.users++
	return o.Engine.Metadata()
}

// left records that the peer has disconnected, and no longer uses the pool.
func (o *owned) left() { o.users-- }

func (o *owned) Unregister() error {
	if o.users > 0 {
		return &rank.Error{Reason: result.ReasonRefused.With("pool in use"), Err: errors.New("the peer still has the metadata of the pool: disconnect it first")}
	}
	o.pool = false
	return o.Engine.Unregister()
}

// sameLists refuses lists of blocks, or pool sizes, that differ between the ranks, before anything is
// registered or posted. A two-sided library would wait forever.
func (b *bench) sameLists(ctx context.Context, pool int64) error {
	sum := sha256.New()
	text := binary.LittleEndian.AppendUint64(nil, uint64(pool))
	sum.Write(text)
	for _, x := range b.rows {
		for _, set := range x.sets[:x.tables] { // the others follow from these
			for _, request := range set {
				text = binary.LittleEndian.AppendUint64(text[:0], uint64(len(request)))
				for _, block := range request {
					for _, n := range []int64{block.Local, block.Remote, block.Bytes} {
						text = binary.LittleEndian.AppendUint64(text, uint64(n))
					}
				}
				sum.Write(text)
			}
		}
	}
	all, err := rank.Gather(ctx, b.session, "lists", sum.Sum(nil))
	if err != nil {
		return err
	}
	if string(all[0]) != string(all[1]) {
		return &rank.Error{Reason: result.ReasonRefused.With("lists of blocks differ"), Err: errors.New("the lists of blocks of the two ranks differ in number, length or place, or their pools in size: give both the same case")}
	}
	return nil
}

// listFaults change the list of a request. They report whether the list had what they change.
var listFaults = map[string]func(list *[]Block) bool{
	FaultShortList: func(list *[]Block) bool {
		last := len(*list) - 1
		*list = (*list)[:max(1, last)]
		return last > 0
	},
	FaultCutBlock: func(list *[]Block) bool {
		(*list)[len(*list)-1].Bytes -= pool.WordBytes
		return true
	},
	FaultEmptyList: func(list *[]Block) bool {
		*list = nil
		return true
	},
}

// spoilLists applies the faults to the lists of this rank, normally none. It refuses a fault that
// changes no list.
func (b *bench) spoilLists() error {
	for kind, spoil := range listFaults {
		if !b.session.HasFault(kind) {
			continue
		}
		changed := false
		for _, x := range b.rows {
			changed = spoil(&x.sets[0][0]) || changed
		}
		if !changed {
			return rank.RefusedFault(kind, "every list of the case has one block; inject it into a case with more")
		}
	}
	return nil
}
