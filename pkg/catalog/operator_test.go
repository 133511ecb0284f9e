package catalog_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/operator"
)

const operatorFile = `platforms:
  alpha:
    slurm:
      partition: gpu
      exclude: [node-3]
    storage: {images: /data/images}
    network:
      socket_interface: eth0
      rdma_devices: ["mlx5_0:1", mlx5_1]
      gid_index: 3
      rail_isolated: true
`

func TestParseOperator(t *testing.T) {
	op, err := catalog.ParseOperator("op.yaml", []byte(operatorFile))
	require.NoError(t, err)
	p := op.Platform("alpha")
	require.Equal(t, "gpu", p.Slurm.Partition)
	require.Equal(t, []string{"mlx5_0:1", "mlx5_1"}, p.Network.RDMADevices)
	require.Equal(t, 3, *p.Network.GIDIndex)
	require.Nil(t, p.Network.ServiceLevel)
	require.Zero(t, op.Platform("beta"))

	require.Empty(t, p.Missing([]string{"slurm.partition", "storage.images", "network.rdma_devices"}))
	require.Equal(t, []string{"slurm.account"}, p.Missing([]string{"slurm.partition", "slurm.account"}))
	require.Equal(t, []string{"slurm.partition"}, op.Platform("beta").Missing([]string{"slurm.partition"}))
	require.Equal(t, operator.Keys(), operator.Platform{}.Missing(operator.Keys()),
		"each key has a value that it stands for")
}

// TestOperatorErrorsAreSilentOnValues: what is in an operator file is private,
// and its errors end in a public job log.
func TestOperatorErrorsAreSilentOnValues(t *testing.T) {
	for _, tc := range []struct{ name, old, new, want string }{
		{"unknown key", "partition:", "partitoin:", `op.yaml:4:7: unknown key "partitoin"; did you mean "partition"?`},
		{"word for list", "[node-3]", "secret-node", `op.yaml:5:16: "exclude" must be a list, not a word`},
		{"twice", "[node-3]", "[secret, secret]", `op.yaml:5:25: "exclude" lists the value twice`},
		{"relative path", "/data/images", "secret/images", `op.yaml:6:23: the value is not a valid absolute path`},
		{"device", "mlx5_1]", "secret$1]", `op.yaml:9:34: the value is not a valid rdma device`},
		{"interface", "eth0", "'secret;rm'", `op.yaml:8:25: the value is not a valid network interface`},
		{"number", "gid_index: 3", "gid_index: 765", `op.yaml:10:18: "gid_index" must be at most 255, not this one`},
		{"number for word", "partition: gpu", "partition: 42", `op.yaml:4:18: "partition" must be a word, not a number; put it in quotes`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := strings.Replace(operatorFile, tc.old, tc.new, 1)
			require.NotEqual(t, operatorFile, bad)
			_, err := catalog.ParseOperator("op.yaml", []byte(bad))
			require.EqualError(t, err, tc.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}
