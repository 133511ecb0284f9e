package catalog_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/ep"
)

const (
	olderSet = `
backends:
  lib:
    ep:
      precisions: [bf16]
      modes: {normal: {}}
      unsupported:
        - {scopes: [scale-out], reason: it stayed inside one node}
platforms:
  alpha:
    lib: {ep: {normal: [8]}}
`
	olderSuite = `
platforms: [alpha]
sampling: short
capabilities: older
ep:
  - workload: moe
    backends: [lib]
    degrees: [8, 16]
    modes: [normal]
    phases: [decode]
    precisions: [bf16]
    routings: [uniform]
`
)

// withSet is base with a set of capabilities and a suite that picks it.
func withSet(t *testing.T, set, suite string) fstest.MapFS {
	t.Helper()
	defs := base(t)
	defs["capabilities/older.yaml"] = &fstest.MapFile{Data: []byte(set)}
	defs["suites/old.yaml"] = &fstest.MapFile{Data: []byte(suite)}
	return defs
}

// TestWith: a set replaces the blocks that it has, for the suites that pick it, and
// nothing else.
func TestWith(t *testing.T) {
	cat, err := catalog.Load(withSet(t, olderSet, olderSuite))
	require.NoError(t, err)
	older, today := cat.With("older"), cat.With("")
	require.Equal(t, []string{"old"}, older.Words("suite"))
	require.Equal(t, []string{"core"}, today.Words("suite"))
	require.Equal(t, []int{8}, catalog.SupportOf[ep.Support](older.Platform("alpha").Support("lib")).Degrees("normal"))
	require.Empty(t, catalog.SupportOf[ep.Support](older.Platform("alpha").Support("lib")).Degrees("low-latency"))
	require.Equal(t, []int{2, 8}, older.Platform("alpha").Worlds(string(collective.Name), "ring"))
	require.Equal(t, []string{"bf16"}, catalog.BackendOf[ep.Backend](older.Backend("lib")).Precisions)
	require.Equal(t, 10, older.Backend("lib").SetupSeconds)
	for _, same := range []*catalog.Catalog{cat, today} {
		require.Equal(t, []int{8, 16}, catalog.SupportOf[ep.Support](same.Platform("alpha").Support("lib")).Degrees("normal"))
		require.Equal(t, []string{"bf16", "fp8"}, catalog.BackendOf[ep.Backend](same.Backend("lib")).Precisions)
	}
	require.Contains(t, older.Coverage(), catalog.Coverage{
		SKU: "alpha", Backend: "lib", Mode: "normal", World: 16, Reason: "it stayed inside one node",
	})
	require.Contains(t, today.Coverage(), catalog.Coverage{SKU: "alpha", Backend: "lib", Mode: "normal", World: 16, Runs: true})
}

func TestPrecisionsOfAMode(t *testing.T) {
	defs := withSet(t, `
backends:
  lib:
    ep:
      precisions: [bf16, fp8]
      modes: {normal: {precisions: [bf16]}, low-latency: {}}
`, olderSuite)
	cat, err := catalog.Load(defs)
	require.NoError(t, err)
	lib := catalog.BackendOf[ep.Backend](cat.With("older").Backend("lib"))
	require.Equal(t, []string{"bf16"}, lib.PrecisionsOf("normal"))
	require.Equal(t, []string{"bf16", "fp8"}, lib.PrecisionsOf("low-latency"))
}

func TestCapabilityErrors(t *testing.T) {
	for _, tc := range []struct{ name, set, suite, want string }{
		{
			"nobody picks it", "platforms:\n  alpha:\n    lib: {ep: {normal: [8, 16]}}\n", "",
			`capabilities/older.yaml:1:1: no suite picks the capabilities "older"`,
		},
		{
			"a platform that lacks the backend", "platforms:\n  beta:\n    lib: {ep: {normal: [8]}}\n", olderSuite,
			`capabilities/older.yaml:3:5: platform "beta" does not list backend "lib"`,
		},
		{
			"an entry without blocks", "backends: {lib: {}}\nplatforms: {alpha: {ring: {}}}\n", olderSuite,
			"capabilities/older.yaml:1:12: backend \"lib\" has neither an ep nor a collective nor a transfer nor a schedule nor a copy nor an overlap nor a simulation block\n" +
				"capabilities/older.yaml:2:21: this entry replaces nothing; leave it out",
		},
		{
			"a gap", "platforms:\n  alpha:\n    lib: {ep: {normal: [8]}}\n", olderSuite,
			"platforms/alpha.yaml:19:3: suites with the capabilities \"older\" ask for lib normal at EP16; list it there, or give the reason in backends.yaml why it is unsupported",
		},
		{
			"a gap of a block of its own", "backends:\n  lib:\n    ep:\n      precisions: [bf16]\n      modes: {normal: {}}\nplatforms:\n  alpha:\n    lib: {ep: {normal: [8]}}\n", olderSuite,
			"platforms/alpha.yaml:19:3: suites with the capabilities \"older\" ask for lib normal at EP16; list it there, or give the reason in capabilities/older.yaml why it is unsupported",
		},
		{
			"a mode of the platform that the set takes away", "backends:\n  lib:\n    ep:\n      precisions: [bf16]\n      modes: {normal: {}}\n", olderSuite,
			`platforms/alpha.yaml:20:27: backend "lib" has no mode "low-latency"; choose from normal`,
		},
		{
			"a precision that only the mode has", "backends:\n  lib:\n    ep:\n      precisions: [bf16]\n      modes: {normal: {precisions: [fp8]}, low-latency: {}}\n", olderSuite,
			`capabilities/older.yaml:5:37: normal precision "fp8" is not among the backend's precisions`,
		},
		{
			"a misspelt key", olderSet, olderSuite + "# \ncapability: x\n",
			`suites/old.yaml:14:1: unknown key "capability"; did you mean "capabilities"?`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			defs := withSet(t, tc.set, tc.suite)
			if tc.suite == "" {
				delete(defs, "suites/old.yaml")
			}
			_, err := catalog.Load(defs)
			require.EqualError(t, err, tc.want)
		})
	}
	defs := base(t)
	defs["suites/old.yaml"] = &fstest.MapFile{Data: []byte(olderSuite)}
	_, err := catalog.Load(defs)
	require.EqualError(t, err, `suites/old.yaml:4:15: unknown capability set "older"; there is none`)
}
