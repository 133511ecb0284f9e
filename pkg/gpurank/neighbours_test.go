package gpurank

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/inventory/nvml"
	"github.com/collectivex/collectivex/pkg/result"
)

// A process of somebody else that computes, draws or is a client of MPS is found before a case and after it.
func TestNeighboursAreFound(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	child := exec.Command("/bin/sh", "-c", "read line") // until its standard input closes
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer func() {
		require.NoError(t, stdin.Close())
		_ = child.Wait() // read ends with 1 at the end of its input
	}()
	const foreign = "1" // a process that this one did not start
	for _, tt := range []struct {
		name, variable    string
		duringCase, after string
		wantBefore, want  int
	}{
		{"none", "CX_FAKE_PROCESSES", "", "", 0, 0},
		{"child of this rank", "CX_FAKE_PROCESSES", fmt.Sprint(child.Process.Pid), fmt.Sprint(child.Process.Pid), 0, 0},
		{"computes before", "CX_FAKE_PROCESSES", foreign, "", 1, 0},
		{"computes after", "CX_FAKE_PROCESSES", "", foreign, 0, 1},
		{"gone", "CX_FAKE_PROCESSES", foreign + ",999999999", foreign, 2, 1},
		{"draws", "CX_FAKE_GRAPHICS", "", foreign, 0, 1},
		{"client of MPS", "CX_FAKE_MPS", foreign, foreign, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(tt.variable, tt.duringCase)
			s, err := watched(t, address, func() error { t.Setenv(tt.variable, tt.after); return nil })
			require.NoError(t, err)
			require.Equal(t, &tt.wantBefore, s.Device.Before.OtherProcesses)
			require.Equal(t, &tt.want, s.Device.After.OtherProcesses)
			warnings := result.NewDevices([]result.RankDevice{*s.Device}).Warnings
			if tt.wantBefore+tt.want == 0 {
				require.Empty(t, warnings)
			} else {
				require.Len(t, warnings, 1)
				wording.Has(t, warnings[0], "processes of others … rank 3")
			}
		})
	}
}

// In a container, the driver lists this rank with the host's process id, or not at all.
func TestNeighboursInContainers(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	d, err := inventory.NewReader(fstest.MapFS{}, nvml.New()).Device(address)
	require.NoError(t, err)
	defer d.Close()
	t.Setenv("CX_FAKE_SELF", "0")
	hidden := newNeighbours(d)
	require.Nil(t, hidden.count(d), "the driver hides processes")
	// The host's ids may be those of processes here: of this one's own parent, say.
	t.Setenv("CX_FAKE_PROCESSES", fmt.Sprint(os.Getppid()))
	n := newNeighbours(d)
	t.Setenv("CX_FAKE_SELF", "4711")
	require.Equal(t, new(1), n.count(d))
	t.Setenv("CX_FAKE_PROCESSES", "")
	require.Equal(t, new(0), n.count(d))
	t.Setenv("CX_FAKE_PROCESSES", "5,6")
	require.Equal(t, new(2), n.count(d))
}

func TestBusyDevices(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	d, err := inventory.NewReader(fstest.MapFS{}, nvml.New()).Device(address)
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, new(0), busy(d))
	t.Setenv("CX_FAKE_BUSY", "90")
	require.Equal(t, new(90), busy(d))
}
