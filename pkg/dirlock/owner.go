package dirlock

import (
	"fmt"
	"os"
	"strings"
)

// owner identifies a process in a marker. The start time distinguishes it from a later
// process with the same id.
type owner struct {
	pid     int
	started string // clock ticks since boot, as in /proc/PID/stat
}

func self() owner {
	_, started := stat(os.Getpid())
	return owner{os.Getpid(), started}
}

func (o owner) String() string { return fmt.Sprintf("process %d %s\n", o.pid, o.started) }

// parseOwner returns the owner in a marker, or the zero owner if there is none.
func parseOwner(marker string) owner {
	var o owner
	_, line, _ := strings.Cut(marker, "\n")
	if _, err := fmt.Sscanf(line, "process %d %s\n", &o.pid, &o.started); err != nil {
		return owner{}
	}
	return o
}

// lives reports whether the process still runs on this host. A zombie does not count: it
// holds no locks.
func (o owner) lives() bool {
	state, started := stat(o.pid)
	return started != "" && started == o.started && state != "Z" && state != "X"
}

// stat returns the state and the start time of a process, both empty if it is gone.
func stat(pid int) (state, started string) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", ""
	}
	// The command, in parentheses, may contain any character. The state is the field after
	// it, the start time the 20th.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 20 {
		return "", ""
	}
	return fields[0], fields[19]
}
