package planner_test

import (
	"fmt"

	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/planner"
)

// The shipped definitions, filtered, become a matrix of cells and their cases.
func ExampleResolve() {
	definitions, err := catalog.Load(matrix.FS)
	if err != nil {
		fmt.Println(err)
		return
	}
	only := planner.Only{"suite": {"smoke"}, "sku": {"local"}, "world": {"2"}}
	m, err := planner.Resolve(definitions, planner.Filters{Only: only}, planner.Machine{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, cell := range m.Include {
		fmt.Println(cell.ID)
		for _, id := range cell.CaseIDs {
			fmt.Println("  " + id)
		}
	}
	// Output:
	// local-host-collective-n1
	//   local-host-all-reduce-float-sum-w2-warm
	//   local-host-p2p-float-w2-warm
	// local-host-bf16-n1
	//   local-host-tiny-normal-decode-ep2-uniform-bf16
	// local-host-kv-shm-n1
	//   local-host-kv-tiny-shm-xfer-ep2-paged-bf16
}
