package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// scratchPrefix is the prefix of scratch directories, which a shard and its ranks share
// while the shard runs: stores and shared memory.
const scratchPrefix = "cxscratch-"

// scratchBase returns the directory in which the scratch directory of a cell is made.
//
// Ranks on this host share its memory with each other and with this process. Ranks on
// other hosts, even on a single one, need a directory that the operator names, since this
// program cannot know which of its file systems other hosts see. Each host and account has
// a directory of its own there.
func (r Request) scratchBase() (string, error) {
	if r.Cell.Launcher == vocab.Bare {
		if r.Cell.Container != vocab.NoContainer && !executable(rendezvous.Memory()) {
			return os.TempDir(), nil
		}
		return rendezvous.Memory(), nil
	}
	if r.Operator.Storage.Stage == "" {
		return "", fmt.Errorf("ranks started by %s need a directory that they share with this host: name one among the operator values of platform %s, as storage.stage",
			r.Cell.Launcher, r.Cell.SKU)
	}
	return stageOf(r.Operator.Storage.Stage)
}

// stageOf returns the directory of this host and account in storage.stage.
func stageOf(stage string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("scratch directory: %w", err)
	}
	return filepath.Join(stage, fmt.Sprintf("collectivex-%s-%d", host, os.Geteuid())), nil
}

// ownDirectory makes a directory for this account only, or checks that it is one. Locks of
// shared file systems may hold on one host only. With a directory for each host and account,
// cells elsewhere do not take the files of a living cell for abandoned ones.
//
// The key is the operator value or the variable that sets the directory above.
func ownDirectory(path, key string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("scratch directory: %w: choose a directory that this account can write to with %s", err, key)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("scratch directory: %w", err)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("scratch directory: %s is not a directory of this account: remove it, or choose another with %s", path, key)
	}
	if err := os.Chmod(path, 0o700); err != nil { // also an older one
		return fmt.Errorf("scratch directory: %w", err)
	}
	return nil
}

// executable reports whether the file system of dir allows programs to run.
func executable(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Flags&unix.ST_NOEXEC == 0
}

// newScratch makes a new scratch directory in base, after it has removed what dead shards
// left there; see cleanup.
func newScratch(ctx context.Context, base string, end func(ctx context.Context, dir string) error) (*dirlock.Claim, error) {
	_, _ = cleanup(ctx, base, end)
	path, err := os.MkdirTemp(base, scratchPrefix)
	if err != nil {
		return nil, fmt.Errorf("scratch directory: %w", err)
	}
	c, err := dirlock.Take(ctx, path, dirlock.Scratch)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("scratch directory: %w", err), os.RemoveAll(path))
	}
	return c, nil
}

// Cleanup cancels the jobs and removes the scratch directories that dead shards of this host and
// this user left in stages (storage.stage of the platforms), in memory and among temporary files.
// It returns how many directories it removed. Shards that run are not affected.
func Cleanup(ctx context.Context, s command.Starter, stages []string) (removed int, err error) {
	bases := []string{rendezvous.Memory()}
	if temporary := os.TempDir(); temporary != bases[0] {
		bases = append(bases, temporary)
	}
	of := map[string]operator.Storage{} // by base
	for _, stage := range stages {
		base, unknown := stageOf(stage)
		if unknown != nil {
			return removed, errors.Join(err, unknown)
		}
		bases = append(bases, base)
		of[base] = operator.Storage{Stage: stage}
	}
	for _, base := range bases {
		n, failed := cleanup(ctx, base, cancelOf(s))
		removed += n
		if failed != nil && !errors.Is(failed, os.ErrNotExist) { // no cell has run there yet
			err = errors.Join(err, of[base].HideIn(fmt.Errorf("clean up %s: %w", base, failed), base))
		}
	}
	return removed, err
}

// cleanup removes the abandoned scratch directories in base. It calls end, if not nil, for each
// of them first. If end fails, the directory stays for the next shard or for Cleanup, since it names
// what to end. A directory with the prefix but without the marker of this program is ignored.
func cleanup(ctx context.Context, base string, end func(ctx context.Context, dir string) error) (removed int, err error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), scratchPrefix) {
			continue
		}
		abandoned, ok := dirlock.Abandoned(filepath.Join(base, e.Name()), dirlock.Scratch)
		if !ok {
			continue
		}
		if end != nil {
			if failed := end(ctx, abandoned.Dir()); failed != nil {
				err = errors.Join(err, failed, abandoned.Release())
				continue
			}
		}
		removed++
		err = errors.Join(err, abandoned.Remove()) // a partly removed directory still has its marker
	}
	return removed, err
}
