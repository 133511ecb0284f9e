package safefile

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// RemoveAll is os.RemoveAll for a directory in which processes that are ending may still create files. While they do, it
// tries again, for at most removeLimit.
func RemoveAll(dir string) error {
	for end := time.Now().Add(removeLimit); ; time.Sleep(removePause) {
		err := os.RemoveAll(dir)
		if !errors.Is(err, unix.ENOTEMPTY) || time.Now().After(end) {
			return err
		}
	}
}

const (
	removeLimit = 30 * time.Second
	removePause = 20 * time.Millisecond
)
