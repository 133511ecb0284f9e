package measure_test

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/measure"
)

// The samples of two ranks become one sample an iteration, of the slower rank, and
// those a percentile.
func ExampleOverRanks() {
	us := [][]float64{
		{10, 11, 10, 30}, // rank 0
		{12, 10, 11, 10}, // rank 1
	}
	slowest, err := measure.OverRanks(us, measure.Max)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(slowest, measure.Percentile(slowest, 50))
	// Output: [12 11 11 30] 11
}

// In each trial another rung comes first.
func ExampleRotate() {
	fmt.Println(measure.Rotate([]int{1, 2, 4}, 0), measure.Rotate([]int{1, 2, 4}, 1))
	// Output: [1 2 4] [2 4 1]
}
