package schedule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// About is what documents say of a program that computes what it should.
type About struct {
	// SHA256 is the hexadecimal digest of the program as WriteText writes it.
	SHA256        string
	Chunks        int // of the vector
	ScratchChunks int // of each rank
	Streams       int // of each rank
	Messages      int // of all ranks
	// SameOrder reports whether all ranks add in the same order.
	SameOrder bool
}

// Correct verifies a program. A finding is an error. uniform is as in a Report. It ends with ctx.
func Correct(ctx context.Context, p *Program) (uniform bool, err error) {
	report, err := Verify(ctx, p)
	if err != nil {
		return false, err
	}
	return report.Uniform, report.Err()
}

// Verified describes a program that is Correct.
func Verified(ctx context.Context, p *Program) (*About, error) {
	uniform, err := Correct(ctx, p)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	if err := p.WriteText(h); err != nil {
		return nil, err
	}
	about := &About{SHA256: hex.EncodeToString(h.Sum(nil)), Chunks: p.Chunks, ScratchChunks: p.Scratch, SameOrder: uniform}
	_, messages := p.SentBytes(0, 1)
	for r, ops := range p.Ops {
		about.Messages += messages[r]
		for i := range ops {
			about.Streams = max(about.Streams, int(ops[i].Stream)+1)
		}
	}
	return about, nil
}
