package laneenv

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Any of the variables is refused by its name, even if it is empty.
func TestCheck(t *testing.T) {
	for _, v := range []Variables{UCX, Mooncake} {
		require.NoError(t, v.Check())
		for _, name := range v.Names {
			t.Run(name, func(t *testing.T) {
				t.Setenv(name, "")
				require.EqualError(t, v.Check(), name+"=: "+v.Library+" would not use the lane of the case: unset it")
			})
		}
	}
}
