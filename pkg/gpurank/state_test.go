package gpurank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/affinity"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/inventory/nvml"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

// pinVariable makes the test binary a rank beside a device, on a machine whose
// files are below the directory that it names.
const pinVariable = "CX_TEST_GPURANK"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(pinVariable); ok {
		v := look(inventory.NewReader(os.DirFS(dir), nvml.New()), address)
		allowed, err := affinity.Allowed()
		fmt.Println(v.cpus, v.numaNode, allowed, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// address is that of the second device of the stand-in for NVML.
const address = "0000:11:00.0"

// machine writes files below a directory: this machine's processors, of which
// the last is NUMA node 1, with the device on node numa.
func machine(t *testing.T, cpus []int, numa string) string {
	t.Helper()
	dir := t.TempDir()
	last := len(cpus) - 1
	for name, text := range map[string]string{
		"sys/devices/system/cpu/online":                 affinity.List(cpus),
		"sys/devices/system/node/node0/cpulist":         affinity.List(cpus[:last]),
		"sys/devices/system/node/node1/cpulist":         affinity.List(cpus[last:]),
		"sys/bus/pci/devices/" + address + "/numa_node": numa,
		"sys/bus/pci/devices/" + address + "/vendor":    "0x10de",
		"sys/bus/pci/devices/" + address + "/class":     "0x030200",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o644))
	}
	return dir
}

func TestRankRunsBesideItsDevice(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	cpus, err := affinity.Allowed()
	require.NoError(t, err)
	need.Processors(t, 2)
	last := cpus[len(cpus)-1:]
	for _, tt := range []struct{ name, numa, want string }{
		{"node 1", "1", fmt.Sprint(last, 1, last, nil)},
		{"node unknown", "-1", fmt.Sprint([]int{}, -1, cpus, nil)},
		{"node that is not there", "5", fmt.Sprint([]int{}, -1, cpus, nil)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			program, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.Command(program)
			cmd.Env = append(os.Environ(), pinVariable+"="+machine(t, cpus, tt.numa))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Equal(t, tt.want, strings.TrimSpace(string(out)))
		})
	}
}

// stub is a runner that does what run does.
type stub struct{ run func(s *rank.Session) error }

func (r stub) Run(_ context.Context, s *rank.Session, _ plan.Case) error { return r.run(s) }
func (r stub) Close() error                                              { return nil }

// watched runs a case around which the stand-in is watched, and returns what the
// shard would read.
func watched(t *testing.T, at string, run func() error) (rank.Stream, error) {
	t.Helper()
	return watchedOn(t, fstest.MapFS{}, rank.Place{Rank: 3, World: 4, LocalRank: 3}, at, run)
}

func watchedOn(t *testing.T, root fs.FS, p rank.Place, at string, run func() error) (rank.Stream, error) {
	t.Helper()
	store, err := rendezvous.OpenFile(t.TempDir())
	require.NoError(t, err)
	defer store.Close()
	v := look(inventory.NewReader(root, nvml.New()), at)
	defer v.close()
	kinds := []string{}
	emit := func(r rank.Record) error {
		kinds = append(kinds, r.Kind)
		line, err := json.Marshal(r)
		require.NoError(t, err)
		return store.Append(rank.StreamKey("case", p.Rank), line)
	}
	r := v.Around(stub{func(s *rank.Session) error {
		return errors.Join(s.Emit(rank.KindFacts, rank.Facts{}), run())
	}})
	failure := r.Run(t.Context(), rank.NewSession(p, store, "case", emit), plan.Case{})
	require.Equal(t, []string{rank.KindDevice, rank.KindFacts, rank.KindDevice}, kinds)
	s, err := rank.ReadStream(store, "case", p.Rank)
	require.NoError(t, err)
	require.Empty(t, s.Records, "no business of the family's")
	return s, failure
}

func TestStateBeforeAndAfter(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_FAKE_USED", "4096")
	s, err := watched(t, address, func() error {
		t.Setenv("CX_FAKE_REASONS", "64")
		t.Setenv("CX_FAKE_UNCORRECTED", "5")
		return nil
	})
	require.NoError(t, err)
	d := s.Device
	require.Equal(t, 3, d.Rank)
	require.Equal(t, "no-mig", d.Partition)
	require.Equal(t, "on", d.ECC)
	require.EqualValues(t, 4096, d.MemoryInUse)
	require.Equal(t, []result.Limit{
		{Of: result.LimitLink, GBps: 542.116, Sum: "18 x 26.562 nvlink + gen5 x16 pcie", Source: "nvml"},
		{Of: result.LimitMemory, GBps: 4916.736, Sum: "2 x 3201 MHz x 6144 bit", Source: "nvml"},
	}, d.Limits)
	require.Equal(t, 1755, d.Before.SMMHz)
	require.Empty(t, d.Before.Throttle)
	require.Equal(t, []string{"hw-thermal-slowdown"}, d.After.Throttle)
	require.EqualValues(t, 5, d.After.ECCUncorrected-d.Before.ECCUncorrected)
	warnings := result.NewDevices([]result.RankDevice{*d}).Warnings
	require.Len(t, warnings, 2)
	wording.Has(t, warnings[0], "hw-thermal-slowdown: rank 3")
	wording.Has(t, warnings[1], "memory errors … 5 … rank 3")
}

// The clock is read between windows, of which a state before and after tells nothing.
func TestClocksBetweenWindows(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	for _, tt := range []struct {
		name, reasons, clocks string
		want                  *result.ClockReadings
	}{
		{"free", "0", "0,1500", &result.ClockReadings{Readings: 1, LowestMHz: 1500}},
		{"hot", "64", "0,1950", &result.ClockReadings{Readings: 1, Capped: 1, CappedBy: []string{"hw-thermal-slowdown"}, LowestMHz: 1950}},
		{"hot and at its limit", "68", "0,900", &result.ClockReadings{Readings: 1, Capped: 1, CappedBy: []string{"hw-thermal-slowdown", "sw-power-cap"}, LowestMHz: 900}},
		{"at its limit and fast", "4", "0,1951", &result.ClockReadings{Readings: 1, LowestMHz: 1951}},
		{"as it is set", "2", "0,900", &result.ClockReadings{Readings: 1, LowestMHz: 900}},
		{"idle", "65", "0,345", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store, err := rendezvous.OpenFile(t.TempDir())
			require.NoError(t, err)
			defer store.Close()
			v := look(inventory.NewReader(fstest.MapFS{}, nvml.New()), address)
			defer v.close()
			var last result.RankDevice
			s := rank.NewSession(rank.Place{World: 1}, store, "case", func(r rank.Record) error { return json.Unmarshal(r.Data, &last) })
			r := v.Around(stub{func(s *rank.Session) error {
				t.Setenv("CX_FAKE_REASONS", tt.reasons)
				t.Setenv("CX_FAKE_SM_CLOCKS", tt.clocks)
				defer t.Setenv("CX_FAKE_REASONS", "0")
				defer t.Setenv("CX_FAKE_SM_CLOCKS", "")
				return s.Emit("sample", nil)
			}})
			require.NoError(t, r.Run(t.Context(), s, plan.Case{}))
			require.Equal(t, tt.want, last.Clocks)
			throttled := result.NewDevices([]result.RankDevice{last}).Throttled
			if tt.want == nil {
				require.Empty(t, throttled)
			} else {
				require.Len(t, throttled, len(tt.want.CappedBy))
			}
		})
	}
}

func TestAFailedCaseTellsItsDeviceToo(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	s, err := watched(t, address, func() error { return rank.Coded(result.ReasonDevice, errors.New("private")) })
	coded, ok := errors.AsType[*rank.Error](err)
	require.True(t, ok)
	require.Equal(t, result.ReasonDevice, coded.Reason.Code)
	require.NotNil(t, s.Device.After)
}

// Nothing that cannot be read fails a case.
func TestNothingToSee(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	for _, tt := range []struct{ name, variable, value, address string }{
		{"no NVML", "CX_NVML_LIB", "/nowhere/libnvidia-ml.so.1", address},
		{"NVML does not start", "CX_FAKE_NVML_FAIL", "9", address},
		{"device lost", "CX_FAKE_NVML_LOST", "1", address},
		{"device that NVML does not list", "CX_FAKE_DEVICES", "1", address},
		{"no address", "CX_FAKE_DEVICES", "1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(tt.variable, tt.value)
			s, err := watched(t, tt.address, func() error { return nil })
			require.NoError(t, err)
			require.Equal(t, &result.RankDevice{Rank: 3}, s.Device)
		})
	}
	t.Run("device lost in the case", func(t *testing.T) {
		s, err := watched(t, address, func() error { t.Setenv("CX_FAKE_NVML_LOST", "1"); return nil })
		require.NoError(t, err)
		require.NotNil(t, s.Device.Before)
		require.Nil(t, s.Device.After)
	})
}

// What RDMA ports count belongs to the node: its first rank tells it.
func TestFirstRankOfANodeTellsOfTheFabric(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	for _, tt := range []struct {
		place rank.Place
		want  *result.Fabric
	}{
		{rank.Place{Rank: 0, World: 4}, &result.Fabric{SentBytes: 4 * 1000}},
		{rank.Place{Rank: 1, World: 4, LocalRank: 1}, nil},
		{rank.Place{Rank: 2, World: 4, Node: 1}, &result.Fabric{SentBytes: 4 * 1000}},
	} {
		const (
			port = "sys/class/infiniband/mlx5_0/ports/1/"
			sent = port + "counters/port_xmit_data"
		)
		root := fstest.MapFS{
			sent:                {Data: []byte("500\n")},
			port + "state":      {Data: []byte("4: ACTIVE\n")},
			port + "link_layer": {Data: []byte("InfiniBand\n")},
			port + "rate":       {Data: []byte("400 Gb/sec (4X NDR)\n")},
		}
		s, err := watchedOn(t, root, tt.place, address, func() error {
			root[sent] = &fstest.MapFile{Data: []byte("1500\n")}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, tt.want, s.Device.Fabric)
		network := slices.DeleteFunc(s.Device.Limits, func(l result.Limit) bool { return l.Of != result.LimitNetwork })
		if tt.want == nil {
			require.Empty(t, network)
		} else {
			require.Equal(t, []result.Limit{{Of: result.LimitNetwork, GBps: 50, Sum: "1 active ports", Source: "sysfs"}}, network)
		}
	}
}
