package shard

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/claim"
)

// scratchPrefix is the prefix of scratch directories, which a shard and its ranks share
// while the shard runs: stores and shared memory.
const scratchPrefix = "cxscratch-"

// ScratchBase returns where scratch directories go: in memory if possible, since ranks wait
// for each other and exchange data there.
func ScratchBase() string {
	const shm = "/dev/shm"
	if unix.Access(shm, unix.W_OK|unix.X_OK) == nil {
		return shm
	}
	return os.TempDir()
}

// newScratch removes what dead shards left in base, and makes a new directory there. It
// ignores a directory with the prefix but without our marker.
func newScratch(ctx context.Context, base string) (*claim.Claim, error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, fmt.Errorf("scratch directory: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), scratchPrefix) {
			continue
		}
		if abandoned, ok := claim.Abandoned(filepath.Join(base, e.Name()), claim.Scratch); ok {
			_ = abandoned.Remove() // whatever is left of it still has its marker
		}
	}
	path, err := os.MkdirTemp(base, scratchPrefix)
	if err != nil {
		return nil, fmt.Errorf("scratch directory: %w", err)
	}
	c, err := claim.Take(ctx, path, claim.Scratch)
	if err != nil {
		return nil, fmt.Errorf("scratch directory: %w", err)
	}
	return c, nil
}
