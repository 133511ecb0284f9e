// Package pyrank runs the Python adapters of libraries in ranks of any family.
package pyrank

import "github.com/collectivex/collectivex/pkg/backend"

// Modules that backends of several families call.
var (
	Torch = module("torch", "torch", "torch", "torch", "torch")
	MoRI  = module("mori", "MoRI", "mori", "MoRI (amd_mori)", "amd_mori", "amd-mori", "mori")
	UCCL  = module("uccl-ep", "UCCL", "uccl", "UCCL (uccl)", "uccl")
)

func module(kind, label, name, install string, distributions ...string) *backend.Need {
	return &backend.Need{Kind: kind, Label: label, Module: &backend.Module{Name: name, Install: install, Distributions: distributions}}
}
