package rank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

// Order is what the shard puts under OrderKey(n), n from 1, for all ranks of a
// group: the next case or the end.
type Order struct {
	Stop  bool      `json:"stop,omitempty"`
	Scope string    `json:"scope,omitempty"` // of the case's session
	Case  plan.Case `json:"case,omitzero"`
	// Files holds the content of files that cases name, by hexadecimal SHA-256.
	Files map[string][]byte `json:"files,omitempty"`
}

// OrderKey is the store key of a group's n-th order.
func OrderKey(n int) string { return fmt.Sprintf("order-%04d", n) }

// StreamKey is the store key of a rank's records of the case with this scope.
func StreamKey(scope string, rank int) string { return fmt.Sprintf("%s/rank-%d", scope, rank) }

// ErrStore is wrapped by errors of the store, such as a full disk: the machine failed, not the case. A rank
// cannot report it through the store, so its process exits with status ExitStore.
var ErrStore = errors.New("store fails")

// ExitStore is the status of a rank process after ErrStore.
const ExitStore = 3

// Find returns the opener of a case's family and backend.
type Find func(c plan.Case) (Opener, error)

// Loop runs a rank: it takes orders from the store, opens the group's runner at the first and runs each case in
// it. It returns nil after the stop order, and an error after the first case that failed, which the case's
// stream reports too: a failure ends the group. Log takes private text.
//
// Loop keeps its goroutine on one OS thread, since devices are current on a thread.
func Loop(ctx context.Context, place Place, store rendezvous.Store, find Find, faults []Fault, log io.Writer) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var runner Runner
	processors() // now: runners restrict this thread further
	environ()    // now: runners set variables for libraries
	for n := 1; ; n++ {
		order, err := nextOrder(ctx, store, n)
		switch {
		case err != nil:
			return err
		case !order.Stop:
			if runner, err = doCase(ctx, place, store, order, runner, find, faults, log); err != nil {
				return err
			}
		case runner != nil:
			return runner.Close()
		default:
			return nil
		}
	}
}

func nextOrder(ctx context.Context, store rendezvous.Store, n int) (Order, error) {
	raw, err := store.Get(ctx, OrderKey(n))
	if err != nil {
		return Order{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	var order Order
	if err := json.Unmarshal(raw, &order); err != nil {
		return Order{}, fmt.Errorf("%s: %w", OrderKey(n), err)
	}
	return order, nil
}

// doCase runs one case, in a new runner if there is none yet, and ends its
// stream.
func doCase(ctx context.Context, place Place, store rendezvous.Store, order Order, runner Runner, find Find, faults []Fault, log io.Writer) (Runner, error) {
	stream := StreamKey(order.Scope, place.Rank)
	write := func(r Record) error {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := store.Append(stream, line); err != nil {
			return fmt.Errorf("%w: %w", ErrStore, err)
		}
		return nil
	}
	s := NewSession(place, store, order.Scope, nil)
	s.note, s.files, s.planned = write, order.Files, order.Case.Env
	s.faults = matching(faults, order.Case.CaseID, place.Rank)
	records := 0
	s.emit = func(r Record) error {
		if records++; s.strikeRecord(records) {
			return nil
		}
		return write(r)
	}

	fmt.Fprintf(log, "=== rank %d: %s: %s\n", place.Rank, order.Scope, order.Case.CaseID)
	warm := runner != nil
	err := guard(func() (err error) {
		if runner == nil {
			s.strike(FaultAtOpen)
			open, err := find(order.Case)
			if err != nil {
				return err
			}
			if runner, err = open(ctx, s, order.Case); err != nil {
				return err
			}
		}
		if s.HasFault(FaultLie) {
			return nil
		}
		s.strike(FaultAtStart)
		if err = s.settled(log, func() error { return runner.Run(ctx, s, order.Case) }); err == nil {
			err = s.missed(warm, records)
		}
		s.strike(FaultAtEnd)
		return err
	})
	if err == nil {
		return runner, write(Record{Kind: kindDone})
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil, fmt.Errorf("%s: %w", order.Case.CaseID, err) // the process is being stopped: this is not a failure of the case
	}
	raw, _ := json.Marshal(failureOf(err)) // strings always marshal
	return nil, errors.Join(fmt.Errorf("%s: %w", order.Case.CaseID, err), write(Record{Kind: kindFailure, Data: raw}))
}

// failureOf returns the Failure that a rank reports for an error.
func failureOf(err error) Failure {
	f := Failure{Reason: result.Reason{Code: result.ReasonInternal}, Text: err.Error()}
	if coded, ok := errors.AsType[*Error](err); ok {
		f.Reason = coded.Reason
	} else if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		f.Reason = result.ReasonEnvironment.With("no space left")
	}
	return f
}

// guard turns a panic of f into an error with the stack.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Coded(result.ReasonInternal, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	return f()
}
