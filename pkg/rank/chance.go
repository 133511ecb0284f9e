package rank

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
)

// Chance returns a source of random numbers with the same seed on all ranks of a case. Rank 0 draws
// the seed, so that a library cannot predict the numbers. A case calls Chance once.
func Chance(ctx context.Context, s *Session) (*rand.Rand, error) {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails
	all, err := Gather(ctx, s, "chance", seed)
	if err != nil {
		return nil, fmt.Errorf("agree on random numbers: %w", err)
	}
	return rand.New(rand.NewChaCha8(all[0])), nil
}
