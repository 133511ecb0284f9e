package githubtest

import (
	"context"
	"sync"
	"time"

	"github.com/collectivex/collectivex/pkg/fleet"
)

// Clock is a fleet.Clock that moves only with Sleep, which returns at once.
type Clock struct {
	mu   sync.Mutex
	now  time.Time
	open map[*context.CancelCauseFunc]bool // contexts with a timeout
	// OnSleep, if set, is called before each sleep.
	OnSleep func(d time.Duration)
}

// NewClock returns a clock that shows Epoch.
func NewClock() *Clock { return &Clock{now: Epoch, open: map[*context.CancelCauseFunc]bool{}} }

// Epoch is the time at which tests begin.
var Epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Now implements fleet.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Sleep implements fleet.Clock.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if c.OnSleep != nil {
		c.OnSleep(d)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return nil
}

// WithTimeout implements fleet.Clock. The context ends when Expire is called.
func (c *Clock) WithTimeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	key := &cancel
	c.mu.Lock()
	c.open[key] = true
	c.mu.Unlock()
	return ctx, func() {
		c.mu.Lock()
		delete(c.open, key)
		c.mu.Unlock()
		cancel(nil)
	}
}

// Expire ends all timeouts that run now.
func (c *Clock) Expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cancel := range c.open {
		(*cancel)(fleet.ErrStalled)
	}
}
