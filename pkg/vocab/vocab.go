// Package vocab is the closed vocabulary of definitions, cases and documents.
// Lists are in the order of plans and tables.
package vocab

// Vendors of devices.
const (
	NVIDIA = "nvidia"
	AMD    = "amd"
	Host   = "host"
)

// Vendors lists the vendors of devices.
var Vendors = List("vendor", NVIDIA, AMD, Host)

// StoreTCP is the store that the shard serves over TCP. The other kind is files.
const StoreTCP = "tcp"

// Scopes of a group of ranks: inside one scale-up domain, or over several.
const (
	ScopeUp  = "scale-up"
	ScopeOut = "scale-out"
)

// Scopes lists the scopes of a group of ranks.
var Scopes = List("scope", ScopeUp, ScopeOut)

// Lanes over which data move between two ranks. The public dashboard calls them fabrics.
const (
	LaneSharedMemory = "shm"  // memory that both processes map
	LaneProcessVM    = "vm"   // process_vm_readv and process_vm_writev
	LaneTCP          = "tcp"  // sockets
	LanePeer         = "peer" // memory of another device of the host, over NVLink, XGMI or PCIe
	LaneRDMA         = "rdma"
	LaneMNNVL        = "mnnvl"
)

// Lanes lists the lanes.
var Lanes = List("lane", LaneSharedMemory, LaneProcessVM, LaneTCP, LanePeer, LaneRDMA, LaneMNNVL)

// OfHost reports whether a lane joins the memory of processes, not of devices.
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
var Handles = List("handle", HandleIPC, HandleVMM)
