package vocab

// Lanes on which a transfer moves data. The public dashboard calls them fabrics.
const (
	LaneSharedMemory = "shm"  // memory that both processes map
	LaneProcessVM    = "vm"   // process_vm_readv and process_vm_writev
	LaneTCP          = "tcp"  // sockets
	LanePeer         = "peer" // memory of another device of the host, over NVLink, XGMI or PCIe
	LaneRDMA         = "rdma"
	LaneMNNVL        = "mnnvl"
)

// Lanes lists the lanes of transfers.
func Lanes() []string {
	return []string{LaneSharedMemory, LaneProcessVM, LaneTCP, LanePeer, LaneRDMA, LaneMNNVL}
}

// OfHost reports whether a lane joins the memory of processes, and not that of devices.
func OfHost(lane string) bool {
	return lane == LaneSharedMemory || lane == LaneProcessVM || lane == LaneTCP
}

// BetweenNodes reports whether a lane joins two nodes, with a rank on each.
func BetweenNodes(lane string) bool { return lane == LaneRDMA || lane == LaneMNNVL }

// Handles by which rank 1 opens a pool of rank 0 that is in the memory of a device.
const (
	HandleIPC = "ipc" // the driver's handle of a plain allocation
	HandleVMM = "vmm" // a file descriptor of memory of virtual memory management
)

// Handles lists the handles of pools.
func Handles() []string { return []string{HandleIPC, HandleVMM} }

// Operations of a transfer, as rank 1 sees them: it reads from the pool of rank 0, or
// writes to it.
const (
	Pull = "pull"
	Push = "push"
)

// TransferOps lists the operations of transfers.
func TransferOps() []string { return []string{Pull, Push} }

// Arrangements of the blocks of a request in a pool.
const (
	Contiguous = "contiguous" // one after the other
	Strided    = "strided"    // with gaps of equal length
	Paged      = "paged"      // scattered: each side has a permutation of its own
)

// Arrangements lists the arrangements of blocks.
func Arrangements() []string { return []string{Contiguous, Strided, Paged} }

// Kinds of rows of a transfer.
const (
	KindPaged = "paged" // the blocks of the requests
	KindBulk  = "bulk"  // the bytes of a request as one block
)

// TransferKinds lists the kinds of rows.
func TransferKinds() []string { return []string{KindPaged, KindBulk} }

// PhaseTransfer is the phase of every transfer.
const PhaseTransfer = "xfer"

// ContractBurst is the timing contract of transfers: the clock covers making the handles,
// posting, and completing all requests of a burst, on the rank that posts them.
const ContractBurst = "handle-post-wait-v1"

// SuiteKV is the suite by whose name the public dashboard knows transfers of KV caches.
const SuiteKV = "kv-transfer"
