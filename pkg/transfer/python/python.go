// Package python is the transfer family's backends whose libraries have a Python interface
// alone, which is called in the rank's own process; see package pyhost. One engine drives all of
// them. A small module in adapters calls each library; backends.go says what each needs.
//
// An adapter module has the functions
//
//	open(json) → json         starts the library; see given and started
//	register(at, bytes)       the pool, one at a time
//	metadata() → text         what the peer's connect needs
//	connect(text)             on the rank that posts
//	post(request, first, end, write) → batch   some blocks of a request
//	poll(batch)               1 if it has ended; 0 if it has not, or the call waits for it
//	disconnect(), unregister()
//
// whose arguments and results are integers unless said otherwise. A result is 0, or the
// library's code of a failure, which is negative for post. The module requests, which is loaded
// before an adapter, keeps the blocks of requests.
package python

import (
	"context"
	"embed"
	"errors"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/pyhost"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
)

//go:embed adapters/*.py
var adapters embed.FS

// Open returns the rank.Opener of a backend. The rank has locked its OS thread. A process opens
// one: it has one interpreter of Python, and libraries read their settings once.
func Open(name string) rank.Opener {
	b := libraries[name]
	b.name = name
	return func(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
		e := &engine{settings: b}
		if err := e.open(ctx, s, c); err != nil {
			if e.memory != nil {
				err = errors.Join(err, e.memory.Close())
			}
			return nil, err
		}
		return e.memory.Runner(e, rank.Library{Kind: name, Version: e.library.version}), nil
	}
}

// open opens the memory of the rank, and the library in an interpreter.
func (e *engine) open(ctx context.Context, s *rank.Session, c plan.Case) (err error) {
	if lane := transfer.Of(&c).Mode; lane != e.lane {
		return rank.Refused("backend %s has no lane %s", e.name, lane)
	}
	if err := e.configure(); err != nil {
		return err
	}
	if e.openDevice != nil {
		if e.memory, err = openDevice(ctx, s, e.openDevice); err != nil {
			return err
		}
	}
	found, err := pyhost.Find(ctx, command.Host{}, nil)
	if err != nil {
		return rank.Coded(result.ReasonNoLibrary, err)
	}
	if e.python, err = pyhost.Start(found); err != nil {
		return rank.Coded(result.ReasonNoLibrary, err)
	}
	if e.library, err = newLibrary(e.python, &e.settings, e.name, given{Rank: s.Rank, Device: s.LocalRank}); err != nil {
		return err
	}
	if e.memory == nil {
		// After the library, whose threads may run on all processors: this pins the thread to one.
		e.memory, err = openHost(ctx, s, c)
	}
	return err
}
