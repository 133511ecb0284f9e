package registry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/registry"
)

type word string

func table() *registry.Table[word] {
	return registry.New(func(w word) string { return string(w) }, "b", "a")
}

func TestTableKeepsTheOrder(t *testing.T) {
	words := table()
	words.Add("c")
	require.Equal(t, []word{"b", "a", "c"}, words.All())
	found, ok := words.Find("c")
	require.True(t, ok)
	require.Equal(t, word("c"), found)
	_, ok = words.Find("d")
	require.False(t, ok)
}

func TestAddPanics(t *testing.T) {
	words := table()
	require.PanicsWithValue(t, `registry_test.word "a" is registered twice`, func() { words.Add("a") })
	words.All()
	require.PanicsWithValue(t, `registry_test.word "d" is registered after the table was read`, func() { words.Add("d") })
}
