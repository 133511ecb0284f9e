package dl

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Search describes where to find a library.
type Search struct {
	What string // name in messages, such as "NCCL"
	// Env names the environment variable that overrides Names. If it is set, nothing else
	// is tried.
	Env string
	// Names are tried in order. A name without a slash is a soname for the dynamic loader.
	// A name with a slash is a path, in which * and ? match as in a shell.
	Names []string
	// Beside are files that the library needs from its own directory but does not locate
	// itself. If the library is named by a path, those that exist are opened before it, in
	// this order, and stay open.
	Beside []string
	// Missing replaces the list of Names in the error if no file was found. It names the
	// places that were searched and how to install the library.
	Missing string
	// Global makes the symbols of the library visible to later libraries; see OpenGlobal.
	Global bool
}

// NamedError is the error for an unusable library that an environment variable names.
type NamedError struct {
	What, Env, Path string
	Err             error
}

func (e *NamedError) Error() string {
	return fmt.Sprintf("%s from %s=%s: %v; set %s to the right library, or unset it", e.What, e.Env, e.Path, e.Err, e.Env)
}

// Unwrap returns Err.
func (e *NamedError) Unwrap() error { return e.Err }

// Unusable returns the error for a library that was opened but cannot be used because of
// err. It is a *NamedError if an environment variable names the library.
func (s Search) Unusable(err error) error {
	if named := os.Getenv(s.Env); named != "" {
		return &NamedError{What: s.What, Env: s.Env, Path: named, Err: err}
	}
	return fmt.Errorf("%s: %w; set %s to the right library", s.What, err, s.Env)
}

// Open opens the first library that loads. If none loads, the error wraps ErrNoLibrary. It
// lists the names that were tried and the variable that can name the library.
func (s Search) Open() (*Library, error) {
	if named := os.Getenv(s.Env); named != "" {
		l, err := s.open(named)
		switch {
		case err != nil && isOther(named):
			return nil, s.Unusable(&otherFile{s.What, err})
		case err != nil:
			return nil, s.Unusable(err)
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
			// Report why an existing file does not load. A name that was not found is in
			// the list below.
			if reason := err.Error(); !strings.Contains(reason, candidate+": cannot open shared object file") {
				broken = append(broken, strings.TrimPrefix(reason, ErrNoLibrary.Error()+": "))
			}
		}
	}
	if len(broken) > 0 {
		return nil, fmt.Errorf("%s: %w that loads: %s; set %s to its path", s.What, ErrNoLibrary, strings.Join(broken, "; "), s.Env)
	}
	missing := cmp.Or(s.Missing, "looked for "+strings.Join(s.Names, ", ")+"; install it")
	return nil, fmt.Errorf("%s: %w: %s or set %s to its path", s.What, ErrNoLibrary, missing, s.Env)
}

// otherFile is the error for a file that exists but is not an ELF file.
type otherFile struct {
	what string
	err  error // wraps ErrNoLibrary
}

func (e *otherFile) Error() string {
	return fmt.Sprintf("it is not the %s library: %s", e.what, strings.TrimPrefix(e.err.Error(), ErrNoLibrary.Error()+": "))
}

func (e *otherFile) Unwrap() error { return e.err }

func (s Search) open(name string) (*Library, error) {
	openOne := Open
	if s.Global {
		openOne = OpenGlobal
	}
	if strings.Contains(name, "/") {
		for _, neighbour := range s.Beside {
			_, _ = openOne(filepath.Join(filepath.Dir(name), neighbour)) // the error of the library itself says what it lacks
		}
	}
	return openOne(name)
}

// candidates expands a pattern, newest versions first.
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
