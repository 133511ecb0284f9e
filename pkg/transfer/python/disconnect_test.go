package python

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/pystandin"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/pyhost"
	"github.com/collectivex/collectivex/pkg/pyrank"
)

// A rank whose peer does not answer waits for one batch, and not for each of them in turn: the
// library takes half a minute for each, while nobody learns why the case failed.
func TestDisconnectWaitsForOneFailure(t *testing.T) {
	runtime.LockOSThread() // Python's main thread, for good
	t.Setenv("PATH", pystandin.Path(t))
	found, err := pyhost.Find(t.Context(), command.Host{}, nil)
	require.NoError(t, err)
	python, err := pyhost.Start(found)
	require.NoError(t, err)
	m, err := python.Load("silent", "calls = 0\n\ndef poll(batch):\n    global calls\n    calls += 1\n    return -1\n\ndef count():\n    return calls\n")
	require.NoError(t, err)
	poll, err := m.Function("poll")
	require.NoError(t, err)
	count, err := m.Function("count")
	require.NoError(t, err)

	e := &engine{library: &library{Library: &pyrank.Library{Name: "mooncake"}, functions: functions{Poll: poll}}}
	for id := range int64(3) {
		e.flying = append(e.flying, &batch{id: id, blocks: 1})
	}
	require.NoError(t, e.Disconnect())
	require.NoError(t, e.Disconnect(), "a second call does nothing")
	calls, err := count.Call()
	require.NoError(t, err)
	require.Equal(t, int64(1), calls)
}
