package run

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/vocab"
)

const (
	// operatorVariable names the file of operator values.
	operatorVariable = "CX_OPERATOR_CONFIG"
	// operatorBytes is far more than the platforms of a fleet need.
	operatorBytes = 1 << 20
)

// cluster is what this host knows of the cluster around it. The zero cluster is none.
type cluster struct {
	operator *catalog.Operator
	slurmJob string // that this program runs in
}

// newCluster reads the operator values, if the environment names a file.
func newCluster(s cli.Streams) (cluster, error) {
	here := cluster{operator: &catalog.Operator{}, slurmJob: s.Getenv("SLURM_JOB_ID")}
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

// request asks for the launcher of a cell.
func (h cluster) request(cell plan.Cell) launch.Request {
	r := launch.Request{Cell: cell, SlurmJob: h.slurmJob}
	if h.operator == nil {
		return r
	}
	p := h.operator.Platform(cell.SKU)
	r.Operator.Missing = p.Missing(cell.Launch.Requires)
	if p != nil {
		r.Operator.Stage = p.Storage.Stage
		r.Operator.Images = launch.ImageOperator{Dir: p.Storage.Images, Locks: p.Storage.Locks, Cache: p.Storage.EnrootCache}
		r.Operator.Docker = p.Docker.Command
		r.Operator.Network = launch.Network{
			Socket: p.Network.SocketInterface, Devices: p.Network.RDMADevices, GIDIndex: p.Network.GIDIndex,
			ServiceLevel: p.Network.ServiceLevel, TrafficClass: p.Network.TrafficClass, RailIsolated: p.Network.RailIsolated,
		}
		r.Operator.Slurm = launch.SlurmOperator{
			Partition: p.Slurm.Partition, Account: p.Slurm.Account, QOS: p.Slurm.QOS, Nodes: p.Slurm.Nodes, Exclude: p.Slurm.Exclude,
		}
	}
	return r
}

// loopback is where the store over TCP of ranks on this host is served.
const loopback = "127.0.0.1"

// listen returns the address of this host at which the stores of a cell are served over
// TCP; empty for stores in files.
func (h cluster) listen(cell plan.Cell) string {
	switch {
	case cell.Launch.Store != vocab.StoreTCP:
		return ""
	case cell.Launcher == "bare":
		return loopback
	}
	if p := h.operator.Platform(cell.SKU); p != nil {
		return p.Network.StoreAddress
	}
	return "" // the cell does not start: the value is required
}
