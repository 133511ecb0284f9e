package python

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/pyhost"
)

// deepEPModule is the module that DeepEP V2, the DeepEP before it and UCCL's wrapper have in common.
const deepEPModule = "deep_ep"

// ucclWrapper is the deep_ep of UCCL, over the module of UCCL.
const ucclWrapper = "uccl-deep_ep"

// deepEPs say by kind how the sources of a deep_ep show that it is of that kind.
var deepEPs = map[string]string{
	"deepep-v2":     "DeepEP V2 (it has an ElasticBuffer)",
	"deepep-legacy": "the DeepEP before V2 (it has no ElasticBuffer)",
	ucclWrapper:     "UCCL's (its Buffer takes is_intranode)",
}

// deepEPKind tells the libraries that have the module deep_ep apart by the classes that its
// sources define, as their adapters do once they have imported it.
func deepEPKind(classes map[string][]string) string {
	if slices.Contains(classes["Buffer"], "is_intranode") {
		return ucclWrapper
	}
	if _, ok := classes["ElasticBuffer"]; ok {
		return "deepep-v2"
	}
	return "deepep-legacy"
}

// deepEP is the deep_ep of a kind.
func deepEP(kind, label, install string) *backend.Need {
	check := func(e *pyhost.Environment) (held bool, err error) {
		if is := deepEPKind(e.Classes[deepEPModule]); is != kind {
			err = fmt.Errorf("module deep_ep of Python %s of %s is %s: install %s, in an environment of its own", e.Version, e.Executable, deepEPs[is], install)
		}
		return false, err
	}
	return &backend.Need{Kind: kind, Label: label, Unlisted: kind == ucclWrapper, Module: &backend.Module{
		Name: deepEPModule, Distributions: []string{"deep_ep", "deep-ep"}, Install: install, Check: check, Sources: true,
	}}
}
