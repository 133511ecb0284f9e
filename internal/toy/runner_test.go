package toy

import (
	"context"
	"fmt"
	"time"

	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// wrongEcho is the fault of a rank that changes what it throws back.
const wrongEcho = "wrong-echo"

// measurer measures toys.
var measurer = rank.Measurer{Family: Name, Assemble: assemble, Faults: []string{wrongEcho}}

// kindEchoes is the kind of the records.
const kindEchoes = "echoes"

// echoes are what a rank heard of its messages of one size.
type echoes struct {
	Bytes   int64     `json:"bytes"`
	Began   time.Time `json:"began"`
	Micros  []float64 `json:"us"`
	Checked int64     `json:"checked"`
	Wrong   int64     `json:"wrong"`
}

// thrower is what a backend does.
type thrower interface {
	Facts() rank.Facts
	// Throw throws a message to the rank that is so many further on, and returns the one that came
	// to this rank. All ranks throw under a key that they use once.
	Throw(ctx context.Context, s *rank.Session, key string, further int, message []byte) ([]byte, error)
}

// runner measures the cases of a group in one rank.
type runner struct{ by thrower }

// Run implements rank.Runner.
func (r runner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	if err := s.Emit(rank.KindFacts, r.by.Facts()); err != nil {
		return err
	}
	for _, size := range of(&c).Sizes {
		e := echoes{Bytes: size, Began: time.Now().UTC()}
		for i := range of(&c).Throws {
			if err := r.throw(ctx, s, &e, i); err != nil {
				return err
			}
		}
		if err := s.Emit(kindEchoes, e); err != nil {
			return err
		}
	}
	return nil
}

// throw throws the n-th message of a size, throws back what comes, and compares its own echo.
func (r runner) throw(ctx context.Context, s *rank.Session, e *echoes, n int) error {
	message := messageOf(s.Rank, n, e.Bytes)
	began := time.Now()
	heard, err := r.by.Throw(ctx, s, fmt.Sprintf("there-%d-%d", e.Bytes, n), 1, message)
	if err != nil {
		return err
	}
	if _, lies := s.Fault(wrongEcho); lies {
		heard[len(heard)-1]++
	}
	echo, err := r.by.Throw(ctx, s, fmt.Sprintf("back-%d-%d", e.Bytes, n), -1, heard)
	if err != nil {
		return err
	}
	e.Micros = append(e.Micros, float64(time.Since(began).Nanoseconds()+1)/1e3)
	e.Checked += e.Bytes
	for i, b := range message {
		if i >= len(echo) || echo[i] != b {
			e.Wrong++
		}
	}
	return nil
}

// Close implements rank.Runner.
func (runner) Close() error { return nil }

// messageOf is the n-th message of a rank: no two that are thrown one after the other are alike.
func messageOf(rank, n int, bytes int64) []byte {
	message := make([]byte, bytes)
	for i := range message {
		message[i] = byte(31*rank + 7*n + i)
	}
	return message
}

// assemble fills the document of a case with what its ranks left; see shard.Assembler.
func assemble(doc result.Document, streams []rank.Stream) error {
	d := doc.(*document)
	c := &d.Identity.Case
	done := len(streams) == c.World
	ranks := make([]map[int64]echoes, len(streams))
	for i, s := range streams {
		ranks[i] = map[int64]echoes{}
		if err := s.Read(rank.Kinds{kindEchoes: rank.Index(ranks[i], func(e echoes) int64 { return e.Bytes })}); err != nil {
			return fmt.Errorf("rank %d: %w", s.Rank, err)
		}
		if s.Facts != nil {
			d.Implementation.LibraryVersion = &s.Facts.Library.Version
		}
		done = done && s.Done
	}
	var wrong int64
	for _, size := range of(c).Sizes {
		r := row{Bytes: size}
		var micros [][]float64
		for _, heard := range ranks {
			if e, ok := heard[size]; ok {
				micros = append(micros, e.Micros)
				r.Checked, r.Wrong = r.Checked+e.Checked, r.Wrong+e.Wrong
			}
		}
		if len(micros) < c.World {
			break
		}
		slowest, err := measure.OverRanks(micros, measure.Max)
		if err != nil {
			return err
		}
		r.Micros = result.NewBurst(slowest)
		d.Rows = append(d.Rows, r)
		wrong += r.Wrong
	}
	switch {
	case wrong > 0:
		d.Outcome = result.Outcome{Status: result.Invalid, Reasons: result.Reasons{result.ReasonCheck.With("wrong echo, %d bytes", wrong)}}
	case !done: // the shard knows why
	case len(d.Rows) < len(of(c).Sizes): // the records of a rank are lost
		d.Outcome = result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonUnchecked}}}
	default:
		d.Outcome = result.Outcome{Status: result.Success, Reasons: result.Reasons{}}
	}
	return nil
}
