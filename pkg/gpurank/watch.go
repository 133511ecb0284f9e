package gpurank

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/collectivex/collectivex/pkg/nccl"
)

// watchEvery is the interval at which a watch checks the library for errors. It is long enough not to affect
// measurements.
const watchEvery = time.Second

// Watch aborts a communicator whose operations can no longer end. Without the abort, a rank that waits for its
// device would wait forever.
type Watch struct {
	failed atomic.Pointer[error]
	stop   context.CancelFunc
	ended  chan struct{}
}

// NewWatch watches c until Stop. When ctx ends, or the library reports an error of work in flight, it aborts c
// and records the reason.
func NewWatch(ctx context.Context, c *nccl.Communicator) *Watch {
	done, stop := context.WithCancel(context.Background())
	w := &Watch{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			var err error
			select {
			case <-done.Done():
				return
			case <-ctx.Done():
				err = context.Cause(ctx)
			case <-tick.C:
				err = NCCLError(c.AsyncError())
			}
			if err != nil {
				w.failed.Store(&err)
				_ = c.Abort() // err is the reason
				return
			}
		}
	}()
	return w
}

// Err returns the reason for the abort, or nil without an abort. After an abort, the contents of buffers are
// undefined.
func (w *Watch) Err() error {
	if err := w.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Stop ends the watch. It waits for an abort in progress.
func (w *Watch) Stop() {
	w.stop()
	<-w.ended
}
