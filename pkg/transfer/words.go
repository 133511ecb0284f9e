package transfer

import "github.com/collectivex/collectivex/pkg/vocab"

// Operations of a transfer, from the view of rank 1: it reads from the pool of rank 0, or writes to it.
const (
	Pull = "pull"
	Push = "push"
)

// Ops lists the operations.
var Ops = vocab.List("transfer op", Pull, Push)

// Arrangements of the blocks of a request in a pool.
const (
	Contiguous = "contiguous" // one after the other
	Strided    = "strided"    // with gaps of equal length
	Paged      = "paged"      // scattered: each side has its own permutation
)

// Arrangements lists the arrangements of blocks.
var Arrangements = vocab.List("arrangement", Contiguous, Strided, Paged)

// Kinds of rows of a transfer.
const (
	KindPaged = "paged" // the blocks of the requests
	KindBulk  = "bulk"  // the bytes of a request as one block
)

// Kinds lists the kinds of rows.
var Kinds = vocab.List("row kind", KindPaged, KindBulk)

// Phase is the phase of every transfer.
const Phase = "xfer"

// SuiteKV is the suite name by which the public dashboard recognises transfers of KV caches.
const SuiteKV = "kv-transfer"

// payloadUnit is the payload unit of transfers.
const payloadUnit = "request-kv-bytes"

func init() { vocab.Register("payload of requests", payloadUnit) }
