package run

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/preflight"
	"github.com/collectivex/collectivex/pkg/steps"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Where copies between GPUs could run and the library of collectives is missing, the host is not
// measured in place of the GPUs.
func TestGPUsWithoutLibrary(t *testing.T) {
	cat := plantest.Shipped()
	survey := preflight.Survey{
		GPUs: []planner.GPUs{{Vendor: vocab.NVIDIA, Product: "h200", Count: 2, Backends: []string{"ipc"}}},
		Findings: []preflight.Finding{
			{Backend: "rccl", State: preflight.Missing, Text: "no AMD GPU"},
			{Backend: "nccl", State: preflight.Missing, Text: "no NCCL: set CX_NCCL_LIB"},
		},
	}
	require.NotContains(t, automatic(cat, collective.Name), "ipc")
	require.Contains(t, automatic(cat, steps.Name), "ipc")
	s := cli.Streams{Out: io.Discard, Err: io.Discard}
	_, err := chooseGPUs(s, survey, cat, bench.HostBackend, []string{"rccl", "nccl"})
	require.EqualError(t, err, "backend nccl cannot run on the GPUs here: no NCCL: set CX_NCCL_LIB; --backend host measures the host instead")
	var exit *cli.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, cli.ExitEnvironment, exit.Code)

	p, err := chooseGPUs(s, survey, cat, bench.HostBackend, []string{"rccl"})
	require.NoError(t, err)
	require.Equal(t, bench.HostBackend, p.backend.Name)
	require.Equal(t, "chosen: no backend of the GPUs here can measure this yet", p.note)

	p, err = chooseGPUs(s, survey, cat, bench.HostBackend, []string{"ipc"})
	require.NoError(t, err)
	require.Equal(t, "ipc", p.backend.Name)
}

// Without a GPU, the host is measured by the backend host or, of a family that it lacks, by another.
func TestBackendOnHost(t *testing.T) {
	survey := preflight.Survey{Host: []string{"mooncake", "host", "nixl"}}
	require.Equal(t, bench.HostBackend, hostBackend(survey, []string{bench.Auto, "nccl-kv", "host", "nixl"}))
	require.Equal(t, "nixl", hostBackend(survey, []string{bench.Auto, "nccl-kv", "nixl"}))
}
