package launch

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

// scratchBase returns the directory in which the scratch directory of a cell goes.
// Nothing else decides this.
//
// Ranks on this host share its memory with each other and with this process. Ranks on
// other hosts, be it a single one, need a directory that the operator names: this
// program cannot know which of its file systems other hosts see.
func (r Request) scratchBase() (string, error) {
	if r.Cell.Launcher == bare {
		return memory(), nil
	}
	if r.Operator.Stage == "" {
		return "", fmt.Errorf("no directory is known that ranks started by %s share with this host: name one among the operator values of platform %s, as storage.stage",
			r.Cell.Launcher, r.Cell.SKU)
	}
	return r.Operator.Stage, nil
}

// memory is a directory in memory, or the one of temporary files if there is none.
func memory() string {
	const shm = "/dev/shm"
	if unix.Access(shm, unix.W_OK|unix.X_OK) == nil {
		return shm
	}
	return os.TempDir()
}

// newScratch removes what dead shards left in base, and makes a new directory there. It
// calls end for each directory before it removes it, and leaves it if that fails. It
// ignores a directory with the prefix but without our marker.
func newScratch(ctx context.Context, base string, end func(ctx context.Context, dir string) error) (*claim.Claim, error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, fmt.Errorf("scratch directory: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), scratchPrefix) {
			continue
		}
		abandoned, ok := claim.Abandoned(filepath.Join(base, e.Name()), claim.Scratch)
		switch {
		case !ok:
		case end(ctx, abandoned.Dir()) != nil:
			_ = abandoned.Release() // for the next shard
		default:
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
