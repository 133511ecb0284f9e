package runner

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// guardBytes precede and follow the blocks of a pool. Nothing may write there.
const guardBytes = 4096

// maxSets is the maximum number of disjoint block tables over which bursts rotate.
const maxSets = 4

// Bursts fill a table of the destination from several places of the source in turn, placeBytes apart.
// Each burst therefore changes its table.
const (
	places     = 4
	placeBytes = 4096
	slideBytes = (places - 1) * placeBytes
)

// bursts are the bursts of a row.
type bursts struct {
	row    transfer.Row
	tables int // disjoint sets of places for a burst in each pool
	// sets are by set and request. Bursts rotate over them. Set i writes to table i%tables of the
	// destination, from place i/tables of the same table of the source.
	sets [][][]Block
}

// poolBytes returns the size of a pool for rows with bursts of at most largest bytes.
func poolBytes(slack int, largest int64) int64 {
	const page = 4096
	data := (int64(slack)*largest + page - 1) / page * page
	return 2*guardBytes + data + slideBytes
}

// newBursts lays out the blocks of a row in pools of the given size. The seed makes both ranks compute
// the same tables.
func newBursts(t *transfer.Block, row transfer.Row, pool int64) bursts {
	tables := int(min(maxSets, (pool-2*guardBytes-slideBytes)/(row.ReqBytes*int64(row.Batch))))
	b := bursts{row: row, tables: tables, sets: make([][][]Block, tables)}
	for k := range b.sets {
		b.sets[k] = make([][]Block, row.Batch)
	}
	at := int64(guardBytes)
	for i, e := range entries(t, row) {
		n, size := e.Blocks(row.ISL, pageOf(row))
		var slots [transfer.Ranks][]int
		for rank := range slots {
			slots[rank] = slotsOf(t, i, rank, tables, row.Batch*n)
		}
		for range e.Regions {
			for k := range b.sets {
				for j := range row.Batch * n {
					request := &b.sets[k][j/n]
					*request = append(*request, Block{
						Local:  at + int64(slots[1][k*row.Batch*n+j])*size,
						Remote: at + int64(slots[0][k*row.Batch*n+j])*size,
						Bytes:  size,
					})
				}
			}
			at += int64(tables*row.Batch*n) * size
		}
	}
	return b.slid()
}

// small returns the bursts of one block.
func small(op string, bytes int64) bursts {
	block := Block{Local: guardBytes, Remote: guardBytes, Bytes: bytes}
	return bursts{row: transfer.Row{Op: op, ReqBytes: bytes, Batch: 1}, tables: 1, sets: [][][]Block{{{block}}}}.slid()
}

// slid adds the sets that read from the other places.
func (b bursts) slid() bursts {
	for i := b.tables; i < places*b.tables; i++ {
		set := make([][]Block, len(b.sets[i%b.tables]))
		for j, request := range b.sets[i%b.tables] {
			set[j] = slices.Clone(request)
			for k := range set[j] {
				if block := &set[j][k]; b.row.Op == transfer.Pull {
					block.Remote += int64(i/b.tables) * placeBytes
				} else {
					block.Local += int64(i/b.tables) * placeBytes
				}
			}
		}
		b.sets = append(b.sets, set)
	}
	return b
}

// entries returns the parts of the cache that a row moves: one entry for a bulk row.
func entries(t *transfer.Block, row transfer.Row) []transfer.CacheEntry {
	if row.Kind == transfer.KindBulk {
		return []transfer.CacheEntry{{Regions: 1, Tokens: row.ISL, Bytes: row.ReqBytes}}
	}
	return t.Entries
}

func pageOf(row transfer.Row) int {
	if row.PageTokens == nil {
		return row.ISL
	}
	return *row.PageTokens
}

// slotsOf returns the slot of each block of a region on a rank, by table, request and block: n blocks
// for each of sets tables. All regions of an entry have the same slots.
func slotsOf(t *transfer.Block, entry, rank, sets, n int) []int {
	slots := make([]int, sets*n)
	for i := range slots {
		slots[i] = i
		if t.Routing == transfer.Strided {
			slots[i] = i%n*sets + i/n
		}
	}
	if t.Routing == transfer.Paged {
		r := rand.New(rand.NewPCG(t.Seed, uint64(entry)<<8|uint64(rank)))
		r.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
	}
	return slots
}

// blocks returns the blocks of a set, of all requests.
func (b bursts) blocks(set int) []Block { return slices.Concat(b.sets[set]...) }

// merged returns how many blocks a request has after merging blocks that are adjacent on both sides.
func (b bursts) merged() int {
	n := 0
	var last Block
	for i, x := range b.sets[0][0] {
		if i == 0 || x.Local != last.Local+last.Bytes || x.Remote != last.Remote+last.Bytes {
			n++
		}
		last = x
	}
	return n
}

// series is bursts that follow each other, and what they have left in the destination.
type series struct {
	bursts
	made  int // bursts so far
	fresh int // number of the first burst since the pools were painted, from 0
	order []placed
	left  []pool.Span // reused
}

// placed is a block of the first place, and its table.
type placed struct {
	pool.Span
	table int
}

func (b bursts) series() *series {
	s := &series{bursts: b}
	for table := range b.tables {
		for _, block := range spans(b.blocks(table), b.row.Op == transfer.Pull) {
			s.order = append(s.order, placed{block, table})
		}
	}
	slices.SortFunc(s.order, func(a, b placed) int { return cmp.Compare(a.Dst, b.Dst) })
	return s
}

// next returns the requests of the next burst.
func (s *series) next() [][]Block {
	s.made++
	return s.sets[(s.made-1)%len(s.sets)]
}

// arrived returns the blocks that the bursts since the last paint have left in the destination, in the
// order of the destination. Of each table, these are the blocks of its last burst.
func (s *series) arrived() []pool.Span {
	last := make([]int, s.tables)
	for n := max(s.fresh, s.made-s.tables); n < s.made; n++ {
		last[n%s.tables] = n + 1
	}
	s.left = s.left[:0]
	for _, p := range s.order {
		if n := last[p.table] - 1; n >= 0 {
			place := n / s.tables % places
			s.left = append(s.left, pool.Span{Dst: p.Dst, Src: p.Src + place*placeBytes/pool.WordBytes, N: p.N})
		}
	}
	return s.left
}

// check refuses lists without blocks, blocks outside of the pools, and blocks of one burst that overlap
// on a side: libraries accept them, with undefined results.
func (b bursts) check(size int64) error {
	for set := range b.tables {
		for _, request := range b.sets[set] {
			if len(request) == 0 {
				return &rank.Error{Reason: result.ReasonRefused.With("empty list of blocks"), Err: fmt.Errorf("%s: a request has no blocks", b.row.Name())}
			}
		}
		for _, pull := range []bool{true, false} {
			end := guardBytes / pool.WordBytes
			for _, s := range spans(b.blocks(set), pull) {
				if s.Dst < end || int64(s.Dst+s.N)*pool.WordBytes > size-guardBytes-slideBytes {
					return rank.Coded(result.ReasonInternal,
						fmt.Errorf("%s: a block of %d bytes at %d lies outside the pool or overlaps another block", b.row.Name(), s.N*pool.WordBytes, s.Dst*pool.WordBytes))
				}
				end = s.Dst + s.N
			}
		}
	}
	return nil
}

// spans returns the blocks in words, in the order of their destination, the pool of rank 1
// for a pull and of rank 0 for a push.
func spans(blocks []Block, pull bool) []pool.Span {
	out := make([]pool.Span, len(blocks))
	for i, b := range blocks {
		s := pool.Span{Dst: int(b.Remote), Src: int(b.Local), N: int(b.Bytes / pool.WordBytes)}
		if pull {
			s.Dst, s.Src = s.Src, s.Dst
		}
		s.Dst /= pool.WordBytes
		s.Src /= pool.WordBytes
		out[i] = s
	}
	slices.SortFunc(out, func(a, b pool.Span) int { return cmp.Compare(a.Dst, b.Dst) })
	return out
}
