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

// watchCost is the ratio of the pause after a poll to the time of the poll, which takes
// processor time from ranks that measure.
const watchCost = 50

// watcher returns the watcher of a case, nil if there is no Watch.
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

// poll shows the records so far, if it is time.
func (w *watcher) poll(readers []*rank.Reader) {
	began := time.Now()
	if w == nil || began.Before(w.next) {
		return
	}
	w.show(streams(readers))
	w.next = time.Now().Add(max(w.every, watchCost*time.Since(began)))
}
