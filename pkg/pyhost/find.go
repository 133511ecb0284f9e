// Package pyhost runs Python inside this process. It finds the interpreter of python3 on PATH,
// loads its shared library and calls into it through CPython's stable ABI.
//
// A process has one interpreter, which is never finalized: libraries that communicate between
// GPUs abort or hang when Python tears them down. A process calls Flush and then os.Exit, which
// runs no exit handlers of Python or C.
package pyhost

import (
	"context"
	_ "embed" // find.py
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/dl"
)

//go:embed find.py
var findSource string

// LibraryVariable is the environment variable with the path of libpython, for interpreters that
// do not have it in a usual place.
const LibraryVariable = "CX_PYTHON_LIB"

// Version is the version of an interpreter: major, minor, micro.
type Version [3]int

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// Environment describes the interpreter of python3 on PATH, and its virtual environment if it has
// one. Paths are private.
type Environment struct {
	Executable string  `json:"executable"`
	Version    Version `json:"version"`
	Prefix     string  `json:"prefix"` // of the virtual environment, or of the interpreter
	// Path lists the directories in which it looks for modules, in search order.
	Path []string `json:"path"`
	// Libraries lists possible paths of its shared library, in the order in which they are tried.
	Libraries []string `json:"libraries"`
	// Packages maps the requested modules that are installed to the versions of their
	// distributions; empty for a module without a distribution.
	Packages map[string]string `json:"packages"`
	// Classes maps each module whose sources were read to its classes, and each class to the
	// parameters of its __init__.
	Classes map[string]map[string][]string `json:"classes"`
}

// Find runs python3 on PATH and returns its environment. modules maps each requested module to the
// distributions that may contain it. Find imports none of them; it reads the Python sources of the
// modules in read.
func Find(ctx context.Context, s command.Starter, modules map[string][]string, read ...string) (*Environment, error) {
	if modules == nil {
		modules = map[string][]string{}
	}
	wanted, err := json.Marshal(modules)
	if err != nil {
		return nil, err
	}
	sources, err := json.Marshal(append([]string{}, read...))
	if err != nil {
		return nil, err
	}
	out, err := command.Output(ctx, s, command.Command{Args: []string{"python3", "-c", findSource, string(wanted), string(sources)}})
	if err != nil {
		return nil, fmt.Errorf("run python3 on PATH: %w: install Python 3.10 or newer, or put the bin directory of an environment first in PATH", err)
	}
	// An environment may print text when it starts, before the answer.
	text := strings.TrimSpace(string(out))
	var e Environment
	if err := json.Unmarshal([]byte(text[strings.LastIndexByte(text, '\n')+1:]), &e); err != nil {
		return nil, fmt.Errorf("python3 on PATH did not describe itself: %w: put the bin directory of an environment first in PATH", err)
	}
	return &e, nil
}

// Library opens the shared library of the environment's interpreter and checks its version.
func (e *Environment) Library() (*dl.Library, error) {
	search := dl.Search{What: "libpython", Env: LibraryVariable, Names: e.Libraries, Global: true}
	l, err := search.Open()
	if _, named := errors.AsType[*dl.NamedError](err); named {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("python3 on PATH is Python %s of %s, whose shared library is missing: install libpython%d.%d, or build that Python with --enable-shared: %w",
			e.Version, e.Executable, e.Version[0], e.Version[1], err)
	}
	if err := bind(l); err != nil {
		return nil, search.Unusable(err)
	}
	if got := libraryVersion(); !e.Version.is(got) {
		return nil, search.Unusable(fmt.Errorf("libpython has version %s, but python3 on PATH is Python %s of %s", got, e.Version, e.Executable))
	}
	return l, nil
}

// is reports whether text begins with the version, such as 3.13.0rc1 with 3.13.0.
func (v Version) is(text string) bool {
	rest, ok := strings.CutPrefix(text, v.String())
	return ok && strings.TrimLeft(rest, "0123456789") == rest
}
