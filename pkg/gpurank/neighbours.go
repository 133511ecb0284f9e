package gpurank

import (
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// neighbours finds the processes of others that use the device of this rank.
type neighbours struct {
	before []int // what the driver listed before the rank opened the device
	// alias has the ids under which the driver lists this rank if it does not list its process id: those that came when
	// the rank opened the device. So it is in a container for which the driver does not translate the ids of the host.
	alias []int
}

func newNeighbours(d *inventory.Device) neighbours {
	before, _ := d.Processes()
	return neighbours{before: before}
}

// count returns the number of processes of others; nil if the driver does not list this rank, and so perhaps not
// the others either. The rank has opened the device.
func (n *neighbours) count(d *inventory.Device) *int {
	pids, ok := d.Processes()
	if !ok {
		return nil
	}
	ours := ours
	if !slices.Contains(pids, os.Getpid()) {
		if n.alias == nil {
			n.alias = slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return slices.Contains(n.before, pid) })
		}
		if len(n.alias) == 0 {
			return nil
		}
		ours = func(pid int) bool { return slices.Contains(n.alias, pid) }
	}
	others := len(slices.DeleteFunc(pids, ours))
	return &others
}

// ours reports whether a process belongs to the run: it is this rank, or what started the rank has started it.
// What cannot be seen in /proc does not.
func ours(pid int) bool {
	self, starter := os.Getpid(), os.Getppid()
	for range 64 { // generations
		if pid == self || pid == starter && starter > 1 {
			return true
		}
		if pid = int(sysfs.Here().Counts(":", "proc", strconv.Itoa(pid), "status")["PPid"]); pid <= 1 {
			return false
		}
	}
	return false
}

// The time in which a device has to become idle. It is longer than the period over which drivers average, in which
// earlier ranks of this run may have used it.
const (
	busyFor  = 1500 * time.Millisecond
	busyPoll = 100 * time.Millisecond
)

// busy returns how much of the time the device computes, in percent, before the rank opens it; nil if it is
// unknown.
func busy(d *inventory.Device) *int {
	for end := time.Now().Add(busyFor); ; time.Sleep(busyPoll) {
		percent, ok := d.BusyPercent()
		if !ok {
			return nil
		}
		if percent < result.BusyFrom || time.Now().After(end) {
			return &percent
		}
	}
}
