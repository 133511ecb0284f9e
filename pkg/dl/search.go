package dl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Search says where a library is looked for.
type Search struct {
	What string // how messages call it, such as "NCCL"
	// Env names the environment variable that, when set, is the only place
	// looked at.
	Env string
	// Names are tried in order. A name without a slash is a soname for the dynamic
	// loader; one with a slash is a path, where * and ? match as in a shell.
	Names []string
	// Beside are files of the same directory, in this order, that a library which is
	// named by path needs and does not say where to find. Those that are there are
	// opened before it and stay open.
	Beside []string
	// Global makes the library's symbols visible to later ones; see OpenGlobal.
	Global bool
}

// NamedError is what is wrong with a library that the environment names.
type NamedError struct {
	What, Env, Path string
	Err             error
}

func (e *NamedError) Error() string {
	return fmt.Sprintf("%s from %s=%s: %v; set %s to the library meant or unset it", e.What, e.Env, e.Path, e.Err, e.Env)
}

// Unwrap gives what is wrong.
func (e *NamedError) Unwrap() error { return e.Err }

// Fault is the error of a library that was opened and is not what was looked
// for: a *NamedError where the environment names it.
func (s Search) Fault(err error) error {
	if named := os.Getenv(s.Env); named != "" {
		return &NamedError{What: s.What, Env: s.Env, Path: named, Err: err}
	}
	return fmt.Errorf("%s: %w; set %s to the library meant", s.What, err, s.Env)
}

// Open opens the first library that loads. The error of none is one line that
// says what was looked for, where, and how to say where it is; it wraps
// ErrNoLibrary.
func (s Search) Open() (*Library, error) {
	if named := os.Getenv(s.Env); named != "" {
		l, err := s.open(named)
		switch {
		case err != nil && isOther(named):
			return nil, s.Fault(fmt.Errorf("%w: it is no %s library", err, s.What))
		case err != nil:
			return nil, s.Fault(err)
		}
		return l, nil
	}
	var broken []string
	for _, name := range s.Names {
		for _, candidate := range candidates(name) {
			l, err := s.open(candidate)
			if err == nil {
				return l, nil
			}
			// A file that is there and does not load is worth its reason; a name that
			// is nowhere is said by the list below.
			if reason := err.Error(); !strings.Contains(reason, candidate+": cannot open shared object file") {
				broken = append(broken, strings.TrimPrefix(reason, ErrNoLibrary.Error()+": "))
			}
		}
	}
	if len(broken) > 0 {
		return nil, fmt.Errorf("%s: %w that loads: %s; set %s to its path", s.What, ErrNoLibrary, strings.Join(broken, "; "), s.Env)
	}
	return nil, fmt.Errorf("%s: %w: looked for %s; install it or set %s to its path", s.What, ErrNoLibrary, strings.Join(s.Names, ", "), s.Env)
}

func (s Search) open(name string) (*Library, error) {
	openOne := Open
	if s.Global {
		openOne = OpenGlobal
	}
	if strings.Contains(name, "/") {
		for _, neighbour := range s.Beside {
			_, _ = openOne(filepath.Join(filepath.Dir(name), neighbour)) // the library's own error says what it misses
		}
	}
	return openOne(name)
}

// candidates expands a pattern; newer versions come first.
func candidates(name string) []string {
	if !strings.ContainsAny(name, "*?") {
		return []string{name}
	}
	found, err := filepath.Glob(name)
	if err != nil {
		return nil
	}
	for i, j := 0, len(found)-1; i < j; i, j = i+1, j-1 {
		found[i], found[j] = found[j], found[i]
	}
	return found
}
