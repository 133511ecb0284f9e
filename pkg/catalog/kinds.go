package catalog

import "github.com/collectivex/collectivex/pkg/vocab"

// vocabularies are the closed lists that definitions choose from, by the name
// that `in` tags use. Their order is the order of plans and tables.
func vocabularies() map[string][]string {
	return map[string][]string{
		"vendor":       vocab.Vendors(),
		"cpu":          {"amd64", "arm64"},
		"transport":    {"nvlink", "mnnvl", "xgmi", "pcie", "shm"},
		"scope":        vocab.Scopes(),
		"operator key": OperatorKeys(),
		"launcher":     {"bare", "slurm"},
		"container":    {"none", "pyxis", "docker"},
		"maturity":     {"production", "candidate", "reference"},
		"mode":         vocab.EPModes(),
		"phase":        vocab.Phases(),
		"precision":    vocab.Precisions(),
		"contract":     vocab.Contracts(),
		"op":           vocab.Ops(),
		"dtype":        vocab.DTypes(),
		"redop":        vocab.RedOps(),
		"placement":    vocab.Placements(),
		"timing mode":  vocab.TimingModes(),
		"buffers":      vocab.BufferStates(),
		"registration": vocab.Registrations(),
	}
}
