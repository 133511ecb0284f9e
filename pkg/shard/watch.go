package shard

import (
	"time"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// watcher shows the document of a running case as it grows.
type watcher struct {
	show  func([]rank.Stream)
	every time.Duration
	next  time.Time // not before
}

// watchCost is how much longer than a look the pause after it is, since a look
// takes time of a processor from ranks that measure.
const watchCost = 50

// watcher returns the watcher of a case, nil where nobody watches.
func (r *runner) watcher(c plan.Case) *watcher {
	if r.Watch == nil {
		return nil
	}
	running := result.Reasons{result.ReasonSkipped.With("still running")}
	return &watcher{
		show: func(streams []rank.Stream) {
			if doc, err := r.document(c, ended{streams: streams, reasons: running}); err == nil {
				r.Watch(doc)
			}
		},
		every: r.WatchEvery, next: time.Now().Add(r.WatchEvery),
	}
}

// look shows what the ranks have left so far, if it is time to.
func (w *watcher) look(readers []*rank.Reader) {
	began := time.Now()
	if w == nil || began.Before(w.next) {
		return
	}
	w.show(streams(readers))
	w.next = time.Now().Add(max(w.every, watchCost*time.Since(began)))
}
