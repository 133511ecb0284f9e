package preflight

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/pyhost"
)

// Kinds of what is used through Python. A kind that is the name of a backend is the library
// that this backend measures.
const (
	Python       = "python" // the interpreter of python3 on PATH, with its shared library
	Torch        = "torch"
	DeepEPV2     = "deepep-v2"
	DeepEPLegacy = "deepep-legacy"
	FlashInfer   = "flashinfer-ep"
	MoRI         = "mori"
	UCCL         = "uccl-ep"
	Mooncake     = "mooncake"
)

// pythonPackage is a module, the distributions that may bring it, and which versions of it
// are of this kind.
type pythonPackage struct {
	kind, module  string
	distributions []string
	other         string // begins versions that are of another kind
	what          string // it is, for messages
}

// pythonPackages in the order in which they are listed.
var pythonPackages = []pythonPackage{
	{kind: Torch, module: "torch", distributions: []string{"torch"}, what: "torch"},
	{kind: DeepEPV2, module: "deep_ep", distributions: []string{"deep_ep", "deep-ep"}, other: "1.", what: "DeepEP V2"},
	{kind: DeepEPLegacy, module: "deep_ep", distributions: []string{"deep_ep", "deep-ep"}, other: "2.", what: "DeepEP 1.2, before ElasticBuffer"},
	{kind: FlashInfer, module: "flashinfer", distributions: []string{"flashinfer-python", "flashinfer"}, what: "FlashInfer (flashinfer-python)"},
	{kind: MoRI, module: "mori", distributions: []string{"amd_mori", "amd-mori", "mori"}, what: "MoRI (amd_mori)"},
	{kind: UCCL, module: "uccl", distributions: []string{"uccl"}, what: "UCCL (uccl; for uccl-ep, the deep_ep of its wrapper too)"},
	{kind: Mooncake, module: "mooncake", distributions: mooncakes, what: "Mooncake (mooncake-transfer-engine-non-cuda)"},
}

// mooncakes are the distributions of Mooncake, one for each kind of devices.
var mooncakes = []string{
	"mooncake-transfer-engine-non-cuda", "mooncake-transfer-engine", "mooncake-transfer-engine-cuda13", "mooncake-transfer-engine-rocm",
	"mooncake-transfer-engine-efa", "mooncake-transfer-engine-efa-cuda13", "mooncake-transfer-engine-efa-non-cuda",
}

// pythonTimeout is how long python3 may take to say what it is.
const pythonTimeout = time.Minute

// throughPython finds the interpreter and the packages. None of them is imported.
func throughPython() map[string]Library {
	ctx, cancel := context.WithTimeout(context.Background(), pythonTimeout)
	defer cancel()
	modules := map[string][]string{}
	for _, p := range pythonPackages {
		modules[p.module] = append(modules[p.module], p.distributions...)
	}
	found := map[string]Library{}
	e, err := pyhost.Find(ctx, command.Host{}, modules)
	if err == nil {
		found[Python], err = interpreter(e)
	}
	if err != nil {
		found[Python] = Library{Err: err}
		for _, p := range pythonPackages {
			found[p.kind] = Library{Err: err}
		}
		return found
	}
	for _, p := range pythonPackages {
		found[p.kind] = p.in(e)
	}
	return found
}

func interpreter(e *pyhost.Environment) (Library, error) {
	l, err := e.Library()
	if err != nil {
		return Library{}, err
	}
	defer l.Close()
	return opened(l, e.Version.String()), nil
}

// in finds the package in an environment.
func (p pythonPackage) in(e *pyhost.Environment) Library {
	version, ok := e.Packages[p.module]
	switch {
	case !ok:
		return Library{Err: fmt.Errorf("no module %s for Python %s of %s: install %s there, or put the bin directory of an environment that has it first in PATH",
			p.module, e.Version, e.Executable, p.what)}
	case p.other != "" && strings.HasPrefix(version, p.other):
		return Library{Err: fmt.Errorf("module %s of Python %s of %s is of version %s: install %s, in an environment of its own", p.module, e.Version, e.Executable, version, p.what)}
	}
	return Library{Version: version}
}
