// Package rank runs inside one rank process: its place in the group, its channel to the shard and the loop over
// cases.
package rank

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

// Place identifies a rank.
type Place struct {
	Rank      int `json:"rank"`
	World     int `json:"world"`
	LocalRank int `json:"local_rank"` // also the device index
	Node      int `json:"node"`
}

// Check returns an error for an impossible place.
func (p Place) Check() error {
	switch {
	case p.World < 1 || p.Rank < 0 || p.Rank >= p.World:
		return fmt.Errorf("rank %d of %d: want a rank from 0 below the world size", p.Rank, p.World)
	case p.LocalRank < 0 || p.LocalRank >= p.World || p.Node < 0 || p.Node >= p.World:
		return fmt.Errorf("local rank %d on node %d of %d ranks: want numbers from 0 below the world size", p.LocalRank, p.Node, p.World)
	}
	return nil
}

// Record is one line of a rank's stream. Families define kinds of their own; the kinds below belong to every
// rank.
type Record struct {
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Kinds every rank writes.
const (
	kindDone    = "done"     // the case ended in this rank; nothing follows
	kindFailure = "failure"  // Failure; nothing follows
	KindFacts   = "facts"    // Facts; the family writes it in each Run, as soon as it is known
	kindSetting = "settings" // Settings; the last one counts
	kindWait    = "wait"     // a string: where the rank has waited for waitNotice, empty when the wait has ended
	KindDevice  = "device"   // result.RankDevice, of ranks that drive one; the last one counts
	kindTrials  = "trials"   // repeats, for each name
)

// Failure is why a rank could not complete its case. Text is private: it is for log files and the terminal of
// the user.
type Failure struct {
	Reason result.Reason `json:"reason"`
	Text   string        `json:"text"`
}

// Session is the environment of a family's rank half during one case.
type Session struct {
	Place
	Store rendezvous.Store
	// Scope prefixes every store key of this case, so that a warm group never sees keys of an earlier case.
	Scope string
	// Between, if not nil, is called before each record is written: between timed windows of this rank. It
	// reports whether the clock of the device is capped. It is nil on all ranks of a case, or on none.
	Between func() (capped bool)
	// Repeated is the number of repetitions that Trials ran. StillCapped is the number of trials whose last
	// repetition was capped, too.
	Repeated, StillCapped int

	emit   func(Record) error
	note   func(Record) error // writes a record that faults and counts ignore; may be nil
	faults []Fault
	files  map[string][]byte
	// planned has the variables of the case.
	planned map[string]string
	// settings is the last record of Settings.
	settings string
	capped   bool // in this trial; see Trials
}

// NewSession returns a session whose records go to emit.
func NewSession(p Place, s rendezvous.Store, scope string, emit func(Record) error) *Session {
	return &Session{Place: p, Store: s, Scope: scope, emit: emit}
}

// Part returns a session for a part of the ranks, with a scope of its own. This rank is the one of that number among
// world ranks. Its records are those of s.
func (s *Session) Part(name string, number, world int) *Session {
	part := *s
	part.Rank, part.World, part.Scope = number, world, s.Scope+"/"+name
	return &part
}

// Emit appends a record to this rank's stream. Call it only outside timed windows. Written records survive a
// crash of the rank.
func (s *Session) Emit(kind string, data any) error {
	if s.Between != nil && s.Between() {
		s.capped = true
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return s.emit(Record{Kind: kind, Data: raw})
}

// File returns the content of a file that the case names by the hexadecimal SHA-256 of its content.
func (s *Session) File(digest string) ([]byte, error) {
	content, ok := s.files[digest]
	if !ok {
		return nil, fmt.Errorf("no file with SHA-256 %s came with the case", digest)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("SHA-256 %x, must be %s", sum, digest)
	}
	return content, nil
}

// Gather puts this rank's value under name, a key that each case uses once, and returns
// the values of all ranks in rank order. Values are written as JSON.
func Gather[T any](ctx context.Context, s *Session, name string, value T) ([]T, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("gather %s: %w", name, err)
	}
	defer s.wait(name)()
	all, err := s.Store.Gather(ctx, s.Scope+"/"+name, s.Rank, s.World, raw)
	if err != nil {
		return nil, err
	}
	values := make([]T, len(all))
	for r, raw := range all {
		if err := json.Unmarshal(raw, &values[r]); err != nil {
			return nil, fmt.Errorf("gather %s: rank %d: %w", name, r, err)
		}
	}
	return values, nil
}

// Barrier returns when all ranks have called it with this name, a key that each case
// uses once.
func (s *Session) Barrier(ctx context.Context, name string) error {
	defer s.wait(name)()
	return s.Store.Barrier(ctx, s.Scope+"/"+name, s.Rank, s.World)
}

// waitNotice is how long a rank waits for others before it reports that in its stream. It exceeds the wait for
// a rank that is merely late.
const waitNotice = 3 * time.Second

// wait reports in the stream that the rank waits for others at name, if it still does after waitNotice. The
// caller calls over when the wait has ended.
func (s *Session) wait(name string) (over func()) {
	if s.note == nil {
		return func() {}
	}
	said := make(chan struct{})
	t := time.AfterFunc(waitNotice, func() {
		defer close(said)
		s.noteWait(name)
	})
	return func() {
		if !t.Stop() {
			<-said
			s.noteWait("")
		}
	}
}

// noteWait writes a record about a wait. If that fails, so does the rank's next record.
func (s *Session) noteWait(name string) {
	raw, _ := json.Marshal(name) // strings always marshal
	_ = s.note(Record{Kind: kindWait, Data: raw})
}
