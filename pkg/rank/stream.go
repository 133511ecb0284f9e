package rank

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

// Stream is one rank's records of one case, as read by the shard.
type Stream struct {
	Rank    int
	Records []Record // family records, in order
	Facts   *Facts
	// Settings is empty if the rank has not reported any.
	Settings Settings
	Device   *result.RankDevice     // nil if the rank drives none
	Repeats  map[string]map[int]int // see Counting
	Failure  *Failure
	Done     bool // the rank completed the case
	// Waits is where the rank waits for others, such as host-group; empty if it has not reported a wait.
	Waits string
	// Written is the number of records that the rank has written, without those about waits and settings.
	Written int
}

// Ended reports whether the rank has ended the case, with a failure or without.
func (s Stream) Ended() bool { return s.Done || s.Failure != nil }

// Kinds maps each kind of record of a family to the function that takes its data.
type Kinds map[string]func(data []byte) error

// Read passes the data of the family's records, in order, to the functions of their kinds. It fails at the first
// record of an unknown kind and at the first error of a function; the error names the record.
func (s Stream) Read(kinds Kinds) error {
	for i, r := range s.Records {
		take, known := kinds[r.Kind]
		if !known {
			return fmt.Errorf("record %d: unknown kind %q", i+1, r.Kind)
		}
		if err := take(r.Data); err != nil {
			return fmt.Errorf("record %d (%s): %w", i+1, r.Kind, err)
		}
	}
	return nil
}

// Each returns a function that decodes the data of a record and passes it to take.
func Each[T any](take func(T) error) func([]byte) error {
	return func(data []byte) error {
		var v T
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		return take(v)
	}
}

// Last returns a function that decodes the data of a record into to: the last record counts.
func Last[T any](to *T) func([]byte) error {
	return Each(func(v T) error {
		*to = v
		return nil
	})
}

// Append returns a function that decodes the data of a record and appends it to the list.
func Append[T any](to *[]T) func([]byte) error {
	return Each(func(v T) error {
		*to = append(*to, v)
		return nil
	})
}

// Index returns a function that decodes the data of a record and puts it under its key in the
// map: of records with the same key, the last one counts.
func Index[K comparable, T any](to map[K]T, key func(T) K) func([]byte) error {
	return Each(func(v T) error {
		to[key(v)] = v
		return nil
	})
}

// add adds one line of the stream.
func (s *Stream) add(line []byte) error {
	var r Record
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	switch r.Kind {
	case kindWait:
		return json.Unmarshal(r.Data, &s.Waits)
	case kindSetting:
		s.Settings = Settings{}
		return json.Unmarshal(r.Data, &s.Settings)
	}
	s.Written++
	switch r.Kind {
	case kindDone:
		s.Done = true
	case kindFailure:
		s.Failure = new(Failure)
		return json.Unmarshal(r.Data, s.Failure)
	case KindFacts:
		s.Facts = new(Facts)
		return json.Unmarshal(r.Data, s.Facts)
	case KindDevice:
		s.Device = new(result.RankDevice)
		return json.Unmarshal(r.Data, s.Device)
	case kindTrials:
		var v repeats
		err := json.Unmarshal(r.Data, &v)
		if s.Repeats == nil {
			s.Repeats = map[string]map[int]int{}
		}
		s.Repeats[v.Name] = v.Counts
		return err
	default:
		s.Records = append(s.Records, r)
	}
	return nil
}

// Reader reads the stream of one rank while the rank writes it, each record once.
// Stream holds what it has read so far.
type Reader struct {
	Stream

	store  rendezvous.Store
	key    string
	offset int64 // of the first record that is not read yet
	lines  int
	bad    error // why the stream cannot be read any further
}

// NewReader returns a reader of a rank's records of the case with this scope.
func NewReader(store rendezvous.Store, scope string, rank int) *Reader {
	return &Reader{Stream: Stream{Rank: rank}, store: store, key: StreamKey(scope, rank)}
}

// Next reads the records that were added since the last call. It leaves an incomplete last record, of a rank
// that is writing it or was killed meanwhile, to a later call. An error that does not wrap ErrStore means that a
// record is malformed: earlier records stay in Stream, and every later call returns the error again.
func (r *Reader) Next() error {
	if r.bad != nil {
		return r.bad
	}
	lines, next, err := r.store.Records(r.key, r.offset)
	switch {
	case errors.Is(err, rendezvous.ErrMalformed):
		r.bad = err
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	r.offset = next
	for _, line := range lines {
		r.lines++
		if err := r.add(line); err != nil {
			r.bad = fmt.Errorf("%s: record %d: %w", r.key, r.lines, err)
			return r.bad
		}
	}
	return nil
}

// ReadStream returns a rank's records so far of the case with this scope. It fails as Reader.Next does.
func ReadStream(store rendezvous.Store, scope string, rank int) (Stream, error) {
	r := NewReader(store, scope, rank)
	err := r.Next()
	return r.Stream, err
}
