package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// WithSignals returns a context that ends with the first SIGINT, SIGTERM or,
// unless it is ignored as under nohup, SIGHUP. A second signal ends the process at once.
func WithSignals(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop = signal.NotifyContext(parent, ends...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
