package device

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// NoLimit represents unlimited locked memory.
const NoLimit = math.MaxInt64

// RaiseLocked raises this process's soft limit of locked memory to the hard limit, since network adapters need
// pinned memory. It returns the limit in bytes.
func RaiseLocked() int64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil {
		return NoLimit // unknown
	}
	raised := limit
	raised.Cur = limit.Max
	if unix.Setrlimit(unix.RLIMIT_MEMLOCK, &raised) != nil {
		raised = limit
	}
	if raised.Cur > NoLimit { // unlimited
		return NoLimit
	}
	return int64(raised.Cur)
}

// Limited adds the limit of locked memory to an error of a library, unless there is none.
func Limited(err error, locked int64) error {
	if locked == NoLimit {
		return err
	}
	return fmt.Errorf("%w (this process can lock at most %d bytes: raise its hard limit with ulimit -H -l)", err, locked)
}
