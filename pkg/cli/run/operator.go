package run

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/safefile"
)

const (
	// operatorVariable names the file of operator values.
	operatorVariable = "CX_OPERATOR_CONFIG"
	// operatorBytes is far more than the platforms of a fleet need.
	operatorBytes = 1 << 20
)

// cluster is the cluster that this host belongs to. The zero cluster is none.
type cluster struct {
	operator operator.Values
	slurmJob string // that this program runs in
}

// newCluster reads the operator values, if the environment names a file.
func newCluster(s cli.Streams) (cluster, error) {
	here := cluster{slurmJob: s.Getenv("SLURM_JOB_ID")}
	path := s.Getenv(operatorVariable)
	if path == "" {
		return here, nil
	}
	data, err := safefile.Read(path, operatorBytes)
	if err == nil {
		here.operator, err = catalog.ParseOperator(operatorVariable, data)
	}
	if err != nil {
		return cluster{}, cli.UsageError("%s: %w", operatorVariable, err)
	}
	return here, nil
}

// stages lists the directories that platforms share with their nodes, each once.
func (h cluster) stages() []string {
	var dirs []string
	for _, p := range h.operator.Platforms {
		if p.Storage.Stage != "" {
			dirs = append(dirs, p.Storage.Stage)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func (h cluster) request(cell plan.Cell) launch.Request {
	return launch.Request{Cell: cell, Operator: h.operator.Platform(cell.SKU), SlurmJob: h.slurmJob}
}
