// Package affinity reads and restricts the set of processors that a process may use.
package affinity

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Narrow restricts this process, with its present and future threads, to the processors in
// cpus that it may use. It does nothing if the process may use none of them, or if it may
// not use all of online, since its launcher has then restricted it already.
//
// It returns the processors to which the process is restricted, or nil if the process may
// still use all of online.
func Narrow(online, cpus []int) (held []int, err error) {
	allowed, err := Allowed()
	switch {
	case err != nil || len(online) == 0:
		return nil, err
	case !containsAll(allowed, online):
		return allowed, nil
	}
	var set unix.CPUSet
	for _, cpu := range cpus {
		if slices.Contains(allowed, cpu) {
			set.Set(cpu)
			held = append(held, cpu)
		}
	}
	if len(held) == 0 || len(held) == len(allowed) {
		return nil, nil
	}
	if err := all(&set); err != nil {
		return nil, fmt.Errorf("restrict the process to CPUs %s: %w", List(held), err)
	}
	return held, nil
}

// Allowed returns the processors that the calling OS thread may use, in ascending order.
func Allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the CPU affinity: %w", err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

func containsAll(list, of []int) bool {
	return !slices.ContainsFunc(of, func(cpu int) bool { return !slices.Contains(list, cpu) })
}

// all restricts every thread to set. A thread inherits its set from the thread that starts
// it, so all threads are restricted when a scan finds no new one.
func all(set *unix.CPUSet) error {
	done := map[int]bool{}
	for {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		before := len(done)
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil {
				return err
			}
			if done[tid] {
				continue
			}
			done[tid] = true
			if err := unix.SchedSetaffinity(tid, set); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		if len(done) == before {
			return nil
		}
	}
}

// List formats processors in the kernel's notation: 0-3,8,10-11. cpus must be ascending.
func List(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		last := i
		for last+1 < len(cpus) && cpus[last+1] == cpus[last]+1 {
			last++
		}
		if part := strconv.Itoa(cpus[i]); last == i {
			parts = append(parts, part)
		} else {
			parts = append(parts, part+"-"+strconv.Itoa(cpus[last]))
		}
		i = last + 1
	}
	return strings.Join(parts, ",")
}
