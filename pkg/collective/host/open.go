package host

import (
	"context"
	"errors"

	hostdev "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/data"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Open opens the runner of a rank of the host backend; it is a rank.Opener. The
// caller has locked its OS thread.
func Open(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	device, err := hostdev.Open(s.LocalRank, c.RanksPerNode)
	if err != nil {
		return nil, rank.Coded(result.ReasonDevice, err)
	}
	comm, err := NewComm(ctx, s, device)
	if err != nil {
		return nil, errors.Join(err, device.Close())
	}
	info := device.Info()
	facts := rank.Facts{
		DeviceProduct: info.Product, DeviceArch: info.Arch,
		Framework: "host", AcceleratorRuntime: info.Runtime,
		NUMANode: device.NUMANode(),
	}
	if cpus, pinned := device.CPUs(); pinned {
		facts.CPUs = cpus
	}
	return collective.NewRunner(collective.Parts{Data: data.Inline{}, Comm: comm, Device: device, Facts: facts})
}
