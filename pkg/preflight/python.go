package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/laneenv"
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

	// ucclWrapper is the deep_ep of UCCL, over the module of UCCL.
	ucclWrapper = "uccl-deep_ep"
)

// pythonPackage is a module, and the distributions that may bring it.
type pythonPackage struct {
	kind, module  string
	distributions []string
	what          string // it is, for messages
}

// deepEP is the module that DeepEP V2, the DeepEP before it and UCCL's wrapper have in common.
const deepEP = "deep_ep"

// deepEPs say by kind how the sources of a deep_ep show that it is of that kind.
var deepEPs = map[string]string{
	DeepEPV2:     "DeepEP V2 (it has an ElasticBuffer)",
	DeepEPLegacy: "the DeepEP before V2 (it has no ElasticBuffer)",
	ucclWrapper:  "UCCL's (its Buffer takes is_intranode)",
}

// deepEPKind tells the libraries that have the module deep_ep apart by the classes that its
// sources define, as their adapters do once they have imported it.
func deepEPKind(classes map[string][]string) string {
	if slices.Contains(classes["Buffer"], "is_intranode") {
		return ucclWrapper
	}
	if _, ok := classes["ElasticBuffer"]; ok {
		return DeepEPV2
	}
	return DeepEPLegacy
}

// pythonPackages in the order in which they are listed.
var pythonPackages = []pythonPackage{
	{kind: Torch, module: "torch", distributions: []string{"torch"}, what: "torch"},
	{kind: DeepEPV2, module: deepEP, distributions: deepEPDistributions, what: "DeepEP V2"},
	{kind: DeepEPLegacy, module: deepEP, distributions: deepEPDistributions, what: "DeepEP 1.2, before ElasticBuffer"},
	{kind: FlashInfer, module: "flashinfer", distributions: []string{"flashinfer-python", "flashinfer"}, what: "FlashInfer (flashinfer-python)"},
	{kind: MoRI, module: "mori", distributions: []string{"amd_mori", "amd-mori", "mori"}, what: "MoRI (amd_mori)"},
	{kind: UCCL, module: "uccl", distributions: []string{"uccl"}, what: "UCCL (uccl)"},
	{kind: ucclWrapper, module: deepEP, distributions: deepEPDistributions, what: "UCCL's deep_ep (ep/deep_ep_wrapper of its sources)"},
	{kind: Mooncake, module: "mooncake", distributions: mooncakes, what: "Mooncake (mooncake-transfer-engine-non-cuda)"},
}

var deepEPDistributions = []string{"deep_ep", "deep-ep"}

// mooncakes are the distributions of Mooncake, one for each kind of devices.
var mooncakes = []string{
	"mooncake-transfer-engine-non-cuda", "mooncake-transfer-engine", "mooncake-transfer-engine-cuda13", "mooncake-transfer-engine-rocm",
	"mooncake-transfer-engine-efa", "mooncake-transfer-engine-efa-cuda13", "mooncake-transfer-engine-efa-non-cuda",
}

// mooncakeEngine is the extension module of Mooncake that ranks import.
const mooncakeEngine = "mooncake/engine.so"

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
	e, err := pyhost.Find(ctx, command.Host{}, modules, deepEP)
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
	if !ok {
		return Library{Err: fmt.Errorf("no module %s for Python %s of %s: install %s there, or put the bin directory of an environment that has it first in PATH",
			p.module, e.Version, e.Executable, p.what)}
	}
	if p.module == deepEP {
		if kind := deepEPKind(e.Classes[deepEP]); kind != p.kind {
			return Library{Err: fmt.Errorf("module deep_ep of Python %s of %s is %s: install %s, in an environment of its own", e.Version, e.Executable, deepEPs[kind], p.what)}
		}
	}
	if p.kind == Mooncake {
		err := cmp.Or(laneenv.Mooncake.Check(), e.Unlinked(mooncakeEngine))
		return Library{Version: version, Err: err, Held: err != nil}
	}
	return Library{Version: version}
}
