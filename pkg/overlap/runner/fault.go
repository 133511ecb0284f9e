package runner

import (
	"github.com/collectivex/collectivex/pkg/accel"
	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Kinds of data faults, for rank.FaultVariable. Faults of bits and stale data change the buffers between a timed window and its
// checks. FaultEarly changes the window itself.
const (
	FaultProduct = "flip-product" // one bit of one element of a product is flipped
	FaultEarly   = "early"        // the computation does not wait for the communication
)

// FaultKinds lists the data faults. The first two are shared with collectives: a flipped bit of delivered data, and data of the
// previous window.
func FaultKinds() []string {
	return []string{collective.FaultFlip, collective.FaultStale, FaultProduct, FaultEarly}
}

// Measurer measures matrix products beside communication.
var Measurer = rank.Measurer{Family: overlap.Name, Assemble: Assemble, Faults: FaultKinds(), NoEffect: noEffect}

func noEffect(f rank.Fault, c *plan.Case) string {
	if f.Kind == FaultEarly && overlap.Of(c).Form == overlap.Beside {
		return "products of form beside do not depend on the communication; inject it into a linear layer"
	}
	return ""
}

// injectFaults applies the faults of this rank after a window, normally none.
func (r *row) injectFaults(t turn) error {
	has := r.session.HasFault
	if computes(t.Contender) && has(FaultProduct) {
		bytes := r.shape.M * r.shape.N * r.size
		if err := r.flip(r.product(r.products.Count - 1).Add(bytes)); err != nil {
			return err
		}
	}
	if communicates(t.Contender) && has(collective.FaultStale) {
		before := t
		before.Iteration--
		if err := r.exchange.deliver(before); err != nil {
			return err
		}
	}
	if communicates(t.Contender) && has(collective.FaultFlip) {
		return r.flip(r.exchange.end())
	}
	return nil
}

// flip flips an exponent bit of the element that ends at an address.
func (r *row) flip(end accel.Ptr) error {
	word, err := accel.Read[byte](r.Device, r.stream, end.Add(-1), 1)
	if err == nil {
		word[0] ^= 0x40
		err = accel.Write(r.Device, r.stream, end.Add(-1), word)
	}
	return rank.Coded(result.ReasonDevice, err)
}
