package ipc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/overlap/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// On the devices of both vendors, copies of the driver do the steps of a schedule beside products
// of the vendor's library, and a flipped bit of what they bring is found.
func TestOverlap(t *testing.T) {
	for vendor, library := range map[string]string{"cuda": overlap.ComputeCUBLASLt, "hip": overlap.ComputeHIPBLASLt} {
		for _, faults := range []string{"", "rank=1,kind=" + collective.FaultFlip} {
			t.Run(vendor+faults, func(t *testing.T) {
				need.CXX(t)
				withDriver(t, vendor)
				c := plantest.Overlap("ipc", overlap.Beside, 2, func(c *plan.Case) {
					b := overlap.Of(c)
					b.Algorithm, b.Compute, b.Hidden, b.Sizes = "rotation", overlap.ComputeAuto, 16, []int64{1024, 4096}
				})
				e := eptest.Processes(t, true, faults, c)
				d := eptest.Assembled(t, c, e.Streams[0], runner.Assemble).(*overlap.Document)
				require.Len(t, d.Measurement.Rows, 2, "%v", e.Errs)
				require.Equal(t, library, d.Measurement.Compute)
				require.Equal(t, "peer-copies", d.Measurement.CommunicationPath)
				if faults == "" {
					require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
					return
				}
				require.Equal(t, result.ReasonCheck, d.Outcome.Code())
				require.Positive(t, d.Measurement.Rows[0].Verify.WrongCommunicated)
			})
		}
	}
}
