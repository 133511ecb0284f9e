package python

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

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

// notTCP is the evidence for the RDMA lane of libraries that fall back to TCP: the sockets of this process moved
// less than the requests.
func notTCP() (func(asked map[string]int64) (runner.Lane, error), error) {
	took, err := countTCP()
	return func(asked map[string]int64) (runner.Lane, error) {
		lane, err := took(asked)
		if err == nil && lane.Name == runner.UnknownLane {
			lane.Name = vocab.LaneRDMA
		}
		return lane, err
	}, err
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
