package rank

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/plan"
)

// FaultVariable is the environment variable that injects faults into ranks. It is part of the published
// environment, so that a run with faults is always recognisable.
const FaultVariable = "CX_FAULT"

// Kinds of faults that any rank can have. Families define kinds of data faults (a flipped bit, a wrong expert).
const (
	FaultExit  = "exit"  // the process ends with status 7
	FaultSegv  = "segv"  // the process ends by SIGSEGV
	FaultKill  = "kill"  // the process ends by SIGKILL, as when memory runs out
	FaultHang  = "hang"  // the rank hangs
	FaultSlow  = "slow"  // every record is delayed by 20 ms
	FaultPanic = "panic" // Go code panics
	FaultMute  = "mute"  // the rank works but its records are lost, and it reports done
	FaultLie   = "lie"   // the rank reports done without having worked
)

func processFaults() []string {
	return []string{FaultExit, FaultSegv, FaultKill, FaultHang, FaultSlow, FaultPanic, FaultMute, FaultLie}
}

// Points at which a fault can end or stop a process. The default, "start", also applies to faults that last for
// the whole case.
const (
	FaultAtOpen  = "open"  // before the group's runner opens
	FaultAtStart = "start" // before the case runs
	FaultAtEnd   = "end"   // after the case ran, before the rank says done
)

// atRecord is the point before the n-th record of a case is written.
func atRecord(n int) string { return fmt.Sprintf("record-%d", n) }

var recordPoint = regexp.MustCompile(`^record-[1-9]\d{0,8}$`)

// checkPoint returns an error unless a process fault of this kind can strike at this point.
func checkPoint(kind, at string) error {
	switch kind {
	case FaultSlow, FaultMute, FaultLie:
		if at != FaultAtStart {
			return fmt.Errorf("kind %s lasts for the whole case and has no point %q; leave at= out", kind, at)
		}
	default:
		if at != FaultAtOpen && at != FaultAtStart && at != FaultAtEnd && !recordPoint.MatchString(at) {
			return fmt.Errorf("unknown point %q of kind %s; known are open, start, end and record-N with N from 1", at, kind)
		}
	}
	return nil
}

// Fault is one injected fault.
type Fault struct {
	Case string // glob over case ids, as in path.Match
	Rank int
	Kind string
	At   string // point, as in the constants; families may define more
}

// ParseFaults reads "case=GLOB,rank=N,kind=KIND[,at=POINT]", several of them separated by ";". data lists the
// kinds of data faults of the families. Empty text has no faults.
func ParseFaults(text string, data ...string) ([]Fault, error) {
	kinds := append(processFaults(), data...)
	var faults []Fault
	for part := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		f := Fault{Case: "*", Rank: -1, At: FaultAtStart}
		for field := range strings.SplitSeq(part, ",") {
			key, value, _ := strings.Cut(strings.TrimSpace(field), "=")
			var err error
			switch key {
			case "case":
				f.Case = value
				_, err = path.Match(value, "")
			case "rank":
				if f.Rank, err = strconv.Atoi(value); err != nil || f.Rank < 0 {
					err = fmt.Errorf("invalid rank %q: write one fault for each rank, with ';' between them", value)
				}
			case "kind":
				f.Kind = value
			case "at":
				f.At = value
			default:
				err = fmt.Errorf("unknown key %q; known are case, rank, kind, at", key)
			}
			if err != nil {
				return nil, fmt.Errorf("%s %q: %w", FaultVariable, part, err)
			}
		}
		if f.Kind == "" || f.Rank < 0 {
			return nil, fmt.Errorf("%s %q: rank and kind are required", FaultVariable, part)
		}
		if !slices.Contains(kinds, f.Kind) {
			return nil, fmt.Errorf("%s %q: unknown kind %q; known are %s", FaultVariable, part, f.Kind, strings.Join(kinds, ", "))
		}
		if slices.Contains(processFaults(), f.Kind) {
			if err := checkPoint(f.Kind, f.At); err != nil {
				return nil, fmt.Errorf("%s %q: %w", FaultVariable, part, err)
			}
		}
		faults = append(faults, f)
	}
	return faults, nil
}

// Idle returns why a data fault has no effect in a case that has the fault's rank, and what to do. It returns
// "" if the fault has an effect.
type Idle func(f Fault, c *plan.Case) string

// CheckFaults returns an error for a fault that has no effect in any of cases: its glob matches no id, no
// matching case has its rank, or it is a data fault that idle reports.
func CheckFaults(faults []Fault, cases []plan.Case, idle Idle) error {
	for _, f := range faults {
		matched, maxWorld := 0, 0
		strikes, why := slices.Contains(processFaults(), f.Kind), ""
		for i := range cases {
			c := &cases[i]
			if ok, _ := path.Match(f.Case, c.CaseID); !ok {
				continue
			}
			matched++
			maxWorld = max(maxWorld, c.World)
			if !strikes && f.Rank < c.World {
				why = idle(f, c)
				strikes = why == ""
			}
		}
		switch {
		case matched == 0:
			return fmt.Errorf("%s %q matches nothing: none of the %d cases has such an id", FaultVariable, f, len(cases))
		case f.Rank >= maxWorld:
			return fmt.Errorf("%s %q matches no rank: the matching cases have at most %d ranks", FaultVariable, f, maxWorld)
		case !strikes:
			return fmt.Errorf("%s %q has no effect: %s", FaultVariable, f, why)
		}
	}
	return nil
}

// String formats the fault as ParseFaults reads it.
func (f Fault) String() string {
	return fmt.Sprintf("case=%s,rank=%d,kind=%s,at=%s", f.Case, f.Rank, f.Kind, f.At)
}

// matching returns the faults of one rank in one case.
func matching(faults []Fault, caseID string, rank int) []Fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool {
		ok, _ := path.Match(f.Case, caseID)
		return !ok || f.Rank != rank
	})
}

// Fault returns where a data fault of this kind is injected into this rank in
// this case; ok is false where there is none, which is the normal case.
func (s *Session) Fault(kind string) (at string, ok bool) {
	for _, f := range s.faults {
		if f.Kind == kind {
			return f.At, true
		}
	}
	return "", false
}

// HasFault reports whether a data fault of this kind is injected into this rank in this case.
func (s *Session) HasFault(kind string) bool {
	_, ok := s.Fault(kind)
	return ok
}

// RefuseIdle refuses a data fault of this rank that is idle in its case.
func (s *Session) RefuseIdle(c *plan.Case, idle Idle) error {
	for _, f := range s.faults {
		if slices.Contains(processFaults(), f.Kind) {
			continue
		}
		if why := idle(f, c); why != "" {
			return RefusedFault(f.Kind, "%s", why)
		}
	}
	return nil
}

// missed refuses a fault at a point that a case does not reach: the opening of a runner that an earlier case has
// opened, or a record beyond the written ones.
func (s *Session) missed(warm bool, records int) error {
	for _, f := range s.faults {
		if warm && f.At == FaultAtOpen {
			return RefusedFault(f.Kind, "the runner was open already: rank %d opens it with the first case of a group", s.Rank)
		}
		if n, is := strings.CutPrefix(f.At, "record-"); is && slices.Contains(processFaults(), f.Kind) {
			return RefusedFault(f.Kind, "record %s was not reached: rank %d wrote %d records", n, s.Rank, records)
		}
	}
	return nil
}

// strike applies the process faults of this point.
func (s *Session) strike(point string) {
	for _, f := range s.faults {
		if f.At != point {
			continue
		}
		switch f.Kind {
		case FaultExit:
			os.Exit(7) //nolint:forbidigo // the fault is that the process ends
		case FaultSegv:
			_ = unix.Kill(unix.Getpid(), unix.SIGSEGV)
			time.Sleep(time.Minute)
		case FaultKill:
			_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
			time.Sleep(time.Minute)
		case FaultHang:
			for { // ignores SIGTERM, like a rank inside a library
				time.Sleep(time.Hour)
			}
		case FaultPanic:
			panic("injected fault")
		}
	}
}

// strikeRecord applies the faults of the n-th record and reports whether the record is lost.
func (s *Session) strikeRecord(n int) (lost bool) {
	s.strike(atRecord(n))
	if s.HasFault(FaultSlow) {
		time.Sleep(20 * time.Millisecond)
	}
	return s.HasFault(FaultMute)
}
