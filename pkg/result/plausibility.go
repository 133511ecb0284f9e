package result

// Kinds of limits.
const (
	LimitLink    = "link"    // all links of a device, one direction
	LimitNetwork = "network" // all RDMA ports of a node, one direction
	LimitMemory  = "memory"  // a device's memory, reads and writes together
)

// Limit is a peak that no algorithm can exceed. Rows above it are invalid (implausible).
type Limit struct {
	Of   string  `json:"of"`   // link, network or memory
	GBps float64 `json:"gbps"` // GB/s = 1e9 bytes per second
	// Sum explains the value: 18 x 26.562 nvlink + 63.0154 pcie gen5 x16.
	Sum    string `json:"sum"`
	Source string `json:"source"` // nvml, sysfs, or datasheet of a product
}
