package vocab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearest(t *testing.T) {
	skus := []string{"b200-nscale", "b300", "gb200", "gb300", "h100-dgxc", "h200-dgxc", "local", "mi300x-tw", "mi325x", "mi325x-tw", "mi355x"}
	ops := []string{"all_reduce", "all_gather", "alltoall", "alltoallv", "sendrecv"}
	for _, tt := range []struct {
		got   string
		names []string
		want  string
	}{
		{"h100", skus, "h100-dgxc"}, // b300 is as near, and means another
		{"H200", skus, "h200-dgxc"},
		{"b200", skus, "b200-nscale"},
		{"mi355", skus, "mi355x"},
		{"mi300", skus, "mi300x-tw"},
		{"h300", skus, "b300"},
		{"locl", skus, "local"},
		{"all_reduec", ops, "all_reduce"},
		{"allto", ops, "alltoall"},
		{"alltoallvv", ops, "alltoallv"},
		{"local-machine", skus, "local"},
		{"h", skus, ""},
		{"quantum", skus, ""},
		{"foo", []string{"loop", "batch"}, ""}, // another word
		{"lop", []string{"loop", "batch"}, "loop"},
		{"bacth", []string{"loop", "batch"}, "batch"},
		{"h100", nil, ""},
	} {
		require.Equal(t, tt.want, Nearest(tt.got, tt.names), tt.got)
	}
}
