package catalog

import "github.com/collectivex/collectivex/pkg/vocab"

// vocabulary has the closed lists that are no family's own; see Family.Vocabulary.
var vocabulary = map[string][]string{
	"vendor":       vocab.Vendors(),
	"cpu":          {"amd64", "arm64"},
	"transport":    {"nvlink", "mnnvl", "xgmi", "pcie", "shm"},
	"scope":        vocab.Scopes(),
	"operator key": OperatorKeys(),
	"launcher":     {"bare", "slurm"},
	"container":    {"none", "pyxis", "docker"},
	"maturity":     {"production", "candidate", "reference"},
}
