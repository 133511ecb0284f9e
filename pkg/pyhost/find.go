// Package pyhost runs Python inside this process: it finds the interpreter that python3 on
// PATH is, loads its shared library and calls into it through CPython's stable ABI.
//
// There is one interpreter in a process, and it is never finalized: libraries that
// communicate between GPUs abort or hang when they are torn down by it. A process ends
// instead after Flush, without the exit handlers of Python and of C, as os.Exit does.
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

// LibraryVariable is the environment variable that names the library of the interpreter,
// where it is not found beside it.
const LibraryVariable = "CX_PYTHON_LIB"

// Version is that of an interpreter: major, minor, micro.
type Version [3]int

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// Environment is the interpreter that python3 on PATH is, with its virtual environment if
// it has one. Paths are private.
type Environment struct {
	Executable string  `json:"executable"`
	Version    Version `json:"version"`
	Prefix     string  `json:"prefix"` // of the virtual environment, or of the interpreter
	// Path are the directories in which it looks for modules, in this order.
	Path []string `json:"path"`
	// Libraries are where its shared library can be, in the order in which they are tried.
	Libraries []string `json:"libraries"`
	// Packages are the modules that were asked for and are there, with the versions of
	// their distributions; empty where a module has none.
	Packages map[string]string `json:"packages"`
	// Classes are those that the sources of the modules that were read define, with the
	// parameters of their __init__.
	Classes map[string]map[string][]string `json:"classes"`
}

// Find asks python3 on PATH what it is, and which of the modules it has. It imports none of
// them. Modules have the names of distributions under which they may be installed. Find also
// reads the Python sources of the modules in read.
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
		return nil, fmt.Errorf("python3 on PATH cannot be used: %w: install Python 3.10 or newer, or put the bin directory of an environment first in PATH", err)
	}
	// What an environment prints when it starts comes before the answer.
	text := strings.TrimSpace(string(out))
	var e Environment
	if err := json.Unmarshal([]byte(text[strings.LastIndexByte(text, '\n')+1:]), &e); err != nil {
		return nil, fmt.Errorf("python3 on PATH does not say what it is: %w: put the bin directory of an environment first in PATH", err)
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
		return nil, fmt.Errorf("python3 is Python %s of %s, whose shared library is missing: install libpython%d.%d, or build that Python with --enable-shared: %w",
			e.Version, e.Executable, e.Version[0], e.Version[1], err)
	}
	if err := bind(l); err != nil {
		return nil, search.Unusable(err)
	}
	if got := libraryVersion(); !e.Version.is(got) {
		return nil, search.Unusable(fmt.Errorf("libpython is of Python %s, and python3 on PATH is Python %s of %s", got, e.Version, e.Executable))
	}
	return l, nil
}

// is reports whether text begins with the version, as in 3.13.0rc1.
func (v Version) is(text string) bool {
	rest, ok := strings.CutPrefix(text, v.String())
	return ok && strings.TrimLeft(rest, "0123456789") == rest
}
