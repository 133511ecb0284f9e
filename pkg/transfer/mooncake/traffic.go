package mooncake

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// traffic is the bytes that connections of TCP moved: sent are those that the other end has
// acknowledged.
type traffic struct{ sent, received int64 }

// tcpTraffic is that of the open connections of this process, by the kernel's count.
func tcpTraffic() (t traffic, err error) {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return t, fmt.Errorf("open files of this process: %w", err)
	}
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
		if err != nil {
			continue // not a connection of TCP
		}
		t.sent += int64(info.Bytes_acked)
		t.received += int64(info.Bytes_received)
	}
	return t, nil
}
