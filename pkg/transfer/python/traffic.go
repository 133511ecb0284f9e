package python

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/sysfs"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// traffic holds the bytes that the open TCP connections of this process have moved, by socket.
type traffic map[uint64]moved

// moved counts bytes; sent are those that the other end has acknowledged.
type moved struct{ sent, received int64 }

// tcpTraffic returns the traffic that the kernel counted.
func tcpTraffic() (traffic, error) {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, fmt.Errorf("open files of this process: %w", err)
	}
	t := traffic{}
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		var socket unix.Stat_t
		info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
		if err != nil || unix.Fstat(fd, &socket) != nil {
			continue // not a TCP connection
		}
		t[socket.Ino] = moved{int64(info.Bytes_acked), int64(info.Bytes_received)}
	}
	return t, nil
}

// since returns what the connections have moved since before, without connections closed meanwhile.
func (t traffic) since(before traffic) (sum moved) {
	for socket, now := range t {
		sum.sent += now.sent - before[socket].sent
		sum.received += now.received - before[socket].received
	}
	return sum
}

// here is the machine whose adapters count, and lag how long they may take to count what has arrived.
var (
	here = sysfs.Here()
	lag  = 3 * time.Second
)

// counters lists, by operation, files that drivers of adapters have for a port, and the bytes of their unit.
// EFA counts apart what requests of RDMA have read and written.
var counters = map[string]map[string]int64{
	transfer.Pull: {"counters/port_rcv_data": 4, "hw_counters/rx_rdma_ucast_bytes": 1, "hw_counters/rx_bytes": 1, "hw_counters/rdma_read_bytes": 1},
	transfer.Push: {"counters/port_xmit_data": 4, "hw_counters/tx_rdma_ucast_bytes": 1, "hw_counters/tx_bytes": 1, "hw_counters/rdma_write_bytes": 1},
}

// counted returns the sum over all ports of each of the counters of an operation that there are, in bytes.
func counted(op string) map[string]int64 {
	const adapters = "sys/class/infiniband"
	sums := map[string]int64{}
	for _, adapter := range here.List(adapters) {
		for _, port := range here.List(adapters, adapter, "ports") {
			for name, unit := range counters[op] {
				if n, ok := here.Number(adapters, adapter, "ports", port, name); ok {
					sums[name] += n * unit
				}
			}
		}
	}
	return sums
}

// countRDMA is the evidence for the RDMA lane: by one of their counters, the adapters of this node moved at least the
// bytes of the requests. Without counters the lane is not verified.
func countRDMA() (func(asked map[string]int64) (runner.Lane, error), error) {
	before := map[string]map[string]int64{}
	for op := range counters {
		before[op] = counted(op)
	}
	return func(asked map[string]int64) (runner.Lane, error) {
		lane := runner.Lane{Name: vocab.LaneRDMA}
		deadline := time.Now().Add(lag)
		for op, bytes := range asked {
			if len(before[op]) == 0 {
				lane.Unverified = true
				continue
			}
			for !carried(before[op], counted(op), bytes) {
				if time.Now().After(deadline) {
					return runner.Lane{Name: runner.UnknownLane}, nil
				}
				time.Sleep(lag / 30)
			}
		}
		return lane, nil
	}, nil
}

// carried reports whether one of the counters has counted at least so many bytes.
func carried(before, now map[string]int64, bytes int64) bool {
	for name, n := range now {
		if at, ok := before[name]; ok && n-at >= bytes {
			return true
		}
	}
	return false
}

// countTCP is the evidence for the TCP lane: the sockets of this process moved at least the bytes of the
// requests.
func countTCP() (func(asked map[string]int64) (runner.Lane, error), error) {
	before, err := tcpTraffic()
	return func(asked map[string]int64) (runner.Lane, error) {
		now, err := tcpTraffic()
		if err != nil {
			return runner.Lane{}, err
		}
		if m := now.since(before); m.received < asked[transfer.Pull] || m.sent < asked[transfer.Push] {
			return runner.Lane{Name: runner.UnknownLane}, nil
		}
		return runner.Lane{Name: vocab.LaneTCP}, nil
	}, err
}
