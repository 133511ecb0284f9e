// Package python is the transfer family's backends whose libraries have only a Python interface, which
// is called in the rank's own process; see package pyhost. One engine drives all of them. A small module
// in adapters calls each library; backends.go configures them.
//
// An adapter module has the functions
//
//	open(json) → json         starts the library; see given and started
//	register(at, bytes)       the pool, one at a time
//	metadata() → text         argument of the peer's connect
//	connect(text)             on the rank that posts
//	post(request, first, end, write) → batch   some blocks of a request
//	poll(batch)               1 if it has ended; 0 if it has not, or the call waits for it
//	disconnect(), unregister()
//
// whose arguments and results are integers unless stated otherwise. A result is 0 or an error code of the
// library, which is negative for post. The shared module requests, loaded before an adapter, keeps the
// blocks of requests.
package python

import (
	"context"
	"embed"
	"errors"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/pyrank"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/device"
	"github.com/collectivex/collectivex/pkg/transfer/host"
	"github.com/collectivex/collectivex/pkg/vocab"
)

//go:embed adapters/*.py
var adapters embed.FS

// opener returns the rank.Opener of a backend. The rank has locked its OS thread. A process may open only
// one: it has one Python interpreter, and libraries read their settings once.
func opener(b backend.Backend) rank.Opener {
	return func(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
		e := &engine{locked: device.NoLimit}
		if err := e.open(ctx, s, c, &b); err != nil {
			if e.end != nil {
				err = errors.Join(err, e.end.Close())
			}
			return nil, err
		}
		return e.end.Runner(e, rank.Library{Kind: b.Name, Version: e.library.version}), nil
	}
}

// open opens the memory of the rank, and the library in an interpreter.
func (e *engine) open(ctx context.Context, s *rank.Session, c plan.Case, b *backend.Backend) (err error) {
	if e.settings, err = settingsOf(b.Name, transfer.Of(&c).Mode); err != nil {
		return err
	}
	if err := e.configure(); err != nil {
		return err
	}
	to, err := givenTo(s, &c)
	if err != nil {
		return err
	}
	if e.lane == vocab.LaneRDMA {
		e.locked = device.RaiseLocked()
	}
	if e.openDevice != nil {
		end, err := device.Open(ctx, s, e.openDevice, e.lane)
		if err != nil {
			return err
		}
		if e.lane == vocab.LanePeer {
			// The libraries create a handle of the pool, which needs pages of its own.
			end.MakePool = func(bytes int64) (*device.Pool, error) {
				_, err := end.SharePool(bytes)
				return end.Pool, err
			}
		}
		e.end = end
	}
	python, err := pyrank.Open(ctx, b, adapters)
	if err != nil {
		return err
	}
	if e.library, err = newLibrary(python, &e.settings, b.Name, to); err != nil || e.end != nil {
		return err
	}
	// After the library, whose threads must not inherit the affinity: this pins the thread to a processor.
	end, err := host.NewEnd(ctx, s, c)
	if err == nil {
		e.end = end
	}
	return err
}
