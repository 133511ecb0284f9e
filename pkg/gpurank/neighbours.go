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
	// alias has the ids that the driver lists since the rank opened the device, if the rank's process id is not among
	// them. In some containers, the driver lists processes by their ids on the host.
	alias []int
}

func newNeighbours(d *inventory.Device) neighbours {
	before, _ := d.Processes()
	return neighbours{before: before}
}

// count returns the number of processes of others. Call it while the rank has the device open. It returns nil if the
// driver does not list this rank, since it may not list others either.
func (n *neighbours) count(d *inventory.Device) *int {
	pids, ok := d.Processes()
	if !ok {
		return nil
	}
	belongs := ours
	if !slices.Contains(pids, os.Getpid()) {
		if n.alias == nil {
			n.alias = slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return slices.Contains(n.before, pid) })
		}
		if len(n.alias) == 0 {
			return nil
		}
		belongs = func(pid int) bool { return slices.Contains(n.alias, pid) }
	}
	return new(len(slices.DeleteFunc(pids, belongs)))
}

// ours reports whether a process belongs to the run: it is this rank or its parent, or a descendant of one of them. A
// process that is not visible in /proc does not belong to it.
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

// busyFor is how long busy waits for a device to become idle. Earlier ranks of this run may have used it during the
// period over which drivers average, which is shorter.
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
