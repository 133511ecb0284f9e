package schedule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// About summarizes a verified program for documents.
type About struct {
	// SHA256 is the hexadecimal digest of the program's text, as written by WriteText.
	SHA256        string
	Chunks        int // of the vector
	ScratchChunks int // of each rank
	Streams       int // of each rank
	Messages      int // of all ranks
	// SameOrder reports whether all ranks add in the same order.
	SameOrder bool
}

// Correct verifies a program, and returns the findings of Verify as an error of type Findings. uniform is
// Report.Uniform. It also fails as Verify does.
func Correct(ctx context.Context, p *Program) (uniform bool, err error) {
	report, err := Verify(ctx, p)
	if err != nil {
		return false, err
	}
	return report.Uniform, report.Err()
}

// Verified verifies a program as Correct does, and describes it.
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
