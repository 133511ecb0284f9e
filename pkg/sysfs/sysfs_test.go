package sysfs_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/sysfs"
)

func root(files map[string]string) sysfs.Root {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return sysfs.Root{FS: m}
}

func TestFiles(t *testing.T) {
	r := root(map[string]string{
		"sys/a/one": " 1 \n", "sys/a/word": "word\n",
		"sys/lines": "name : first\nbare\nname: second\n n:-1\nm:2\n",
	})
	require.Equal(t, "word", r.Text("sys", "a", "word"))
	require.Empty(t, r.Text("sys/b"))
	require.Nil(t, r.Bytes("sys/b"))
	n, ok := r.Number("sys/a", "one")
	require.True(t, ok)
	require.EqualValues(t, 1, n)
	_, ok = r.Number("sys/a/word")
	require.False(t, ok)
	require.True(t, r.Exists("sys/a"))
	require.False(t, r.Exists("sys/b"))
	require.Equal(t, []string{"one", "word"}, r.List("sys/a"))
	require.Empty(t, r.List("sys/b"))
	require.Equal(t, map[string]string{"name": "first", "n": "-1", "m": "2"}, r.Fields(":", "sys/lines"))
	require.Equal(t, map[string]uint64{"m": 2}, r.Counts(":", "sys/lines"))
}

func TestMemory(t *testing.T) {
	r := root(map[string]string{"proc/meminfo": "MemTotal:       2 kB\nHugePages_Total:    7\n"})
	n, ok := r.Memory("MemTotal")
	require.True(t, ok)
	require.EqualValues(t, 2048, n)
	for _, name := range []string{"HugePages_Total", "MemAvailable"} {
		_, ok := r.Memory(name)
		require.False(t, ok, name)
	}
}

func TestAvailableMemory(t *testing.T) {
	_, _, err := root(nil).AvailableMemory()
	require.Error(t, err)
	const meminfo = "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  900 kB\n"
	for limit, want := range map[string][]int64{
		"":         {900 << 10, 1000 << 10},
		"409600\n": {400000, 409600},
		"max\n":    {900 << 10, 1000 << 10},
		"9000\n":   {0, 9000},
	} {
		free, total, err := root(map[string]string{
			"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": limit, "sys/fs/cgroup/memory.current": "9600\n",
		}).AvailableMemory()
		require.NoError(t, err)
		require.Equal(t, want, []int64{free, total}, limit)
	}
}

func TestCPUs(t *testing.T) {
	for text, want := range map[string][]int{
		"3\n": {3}, "0-3,8,10-11": {0, 1, 2, 3, 8, 10, 11}, "": nil, "3-1": nil, "0-99999999": nil, "a": nil,
	} {
		require.Equal(t, want, root(map[string]string{"list": text}).CPUs("list"), text)
	}
	require.Empty(t, root(nil).CPUs("list"))
}

func TestNUMA(t *testing.T) {
	r := root(map[string]string{
		"sys/devices/system/cpu/online":         "0-3",
		"sys/devices/system/node/node0/cpulist": "0,2\n", "sys/devices/system/node/node1/cpulist": "1,3\n",
		"sys/devices/system/node/nodes": "", "sys/devices/system/node/online": "0-1",
	})
	require.Equal(t, []int{0, 1, 2, 3}, r.OnlineCPUs())
	require.Equal(t, []int{0, 1}, r.NUMANodes())
	require.Equal(t, []int{1, 3}, r.NUMACPUs(1))
	require.Empty(t, r.NUMACPUs(-1))
	require.Equal(t, 1, r.NUMANode(3, 1))
	for _, cpus := range [][]int{{}, {0, 1}, {4}} {
		require.Equal(t, -1, r.NUMANode(cpus...), cpus)
	}
	require.Empty(t, root(nil).NUMANodes())
}

// This machine has what every Linux tells.
func TestHere(t *testing.T) {
	r := sysfs.Here()
	require.NotEmpty(t, r.OnlineCPUs())
	total, ok := r.Memory("MemTotal")
	require.True(t, ok)
	require.Positive(t, total)
}
