package python

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/pyhost"
)

// deepEPModule is the module name shared by DeepEP V2, the earlier DeepEP and UCCL's wrapper.
const deepEPModule = "deep_ep"

// ucclWrapper is UCCL's deep_ep, a wrapper of the uccl module.
const ucclWrapper = "uccl-deep_ep"

// deepEPs maps each kind of deep_ep to the class that identifies it in its sources.
var deepEPs = map[string]string{
	"deepep-v2":     "DeepEP V2 (it has an ElasticBuffer)",
	"deepep-legacy": "the DeepEP before V2 (it has no ElasticBuffer)",
	ucclWrapper:     "UCCL's (its Buffer takes is_intranode)",
}

// deepEPKind distinguishes the libraries named deep_ep by the classes that their sources define,
// as their adapters do after importing them.
func deepEPKind(classes map[string][]string) string {
	if slices.Contains(classes["Buffer"], "is_intranode") {
		return ucclWrapper
	}
	if _, ok := classes["ElasticBuffer"]; ok {
		return "deepep-v2"
	}
	return "deepep-legacy"
}

// deepEP returns the need for a deep_ep of a kind.
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
