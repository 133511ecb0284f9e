package nccl

import (
	"cmp"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// reducing is a case of sums with an algorithm in its environment.
func reducing(t *testing.T, world int, algorithm string) plan.Case {
	t.Helper()
	c := caseOf(nccl.NCCL, runner.AllReduce, world)
	b := collective.Of(&c)
	b.RedOp, b.Modes, b.Algorithm = "sum", []string{vocab.Pipelined}, algorithm
	setEnv(t, &c)
	return c
}

// setEnv puts the environment of a case's variant into the case and this process.
func setEnv(t *testing.T, c *plan.Case) {
	t.Helper()
	c.Env = collective.Of(c).Selecting()
	for name, value := range c.Env {
		t.Setenv(name, value)
	}
}

// measured runs a case, and returns its document.
func measured(t *testing.T, c plan.Case) (*collective.Document, []error) {
	t.Helper()
	streams, errs := reported(t.Context(), t, nccl.NCCL, c, func() {})
	doc, err := result.New(c, result.Attempt{Ordinal: 1, At: time.Now(), Vendor: "nvidia", Generator: "test 0"})
	require.NoError(t, err)
	require.NoError(t, runner.Assemble(doc, streams))
	return doc.(*collective.Document), errs
}

// The library says which algorithm it has chosen, and that it uses the one that is asked for.
func TestTheAlgorithmIsNamed(t *testing.T) {
	setUp(t)
	for algorithm, want := range map[string][]string{"": {"tree_ll", "tree_ll"}, "ring_ll128": {"ring_ll128", "ring_ll128"}} {
		t.Run(algorithm, func(t *testing.T) {
			c := reducing(t, 2, algorithm)
			d, errs := measured(t, c)
			require.Equal(t, []error{nil, nil}, errs)
			require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
			var got []string
			for _, row := range d.Measurement.Rows {
				got = append(got, row.Algorithm)
			}
			require.Equal(t, want, got)
		})
	}
}

func TestUsedIn(t *testing.T) {
	for line, want := range map[string]runner.Used{
		"": {},
		"h:1:2 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..23}\n":                      {Algorithm: "ring_ll128", CTAs: 24},
		"h:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..0}\n":                       {Algorithm: "nvlstree_simple", CTAs: 1},
		"h:1:2 [0] NCCL INFO AllGather: 8 Bytes -> Algo COLLNET_DIRECT proto SIMPLE channel{Lo..Hi}={0..0}\n":                  {Algorithm: "collnet_direct_simple", CTAs: 1},
		"h:1:2 [0] NCCL INFO AllReduce [Symmetric]: 8 Bytes -> Kernel AllReduce_AGxLLMC_R nchannels 1 nthreads 512 nWorks 1\n": {Algorithm: "symk_agxllmc_r", CTAs: 1},
		"h:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo SECRET proto /home channel{Lo..Hi}={0..0}\n":                           {},
		"h:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL time 5.0\n":                                              {Algorithm: "ring_ll"},
	} {
		require.Equal(t, want, usedIn(line), line)
	}
}

// What the library does not offer is a refusal with the call, and not a failure of the library.
func TestAnAlgorithmThatIsNotOffered(t *testing.T) {
	setUp(t)
	_, errs := measured(t, reducing(t, 2, "nvls_simple"))
	for _, err := range errs {
		require.Equal(t, "refused: nvls_simple not offered, ncclAllReduce ncclInvalidUsage", reason(t, err))
		require.ErrorContains(t, err, "No algorithm/protocol available for function AllReduce")
	}
}

// From 2.31 on, each call has the algorithm in its configuration, and one communicator has all of them.
func TestAnAlgorithmForEachCall(t *testing.T) {
	setUp(t)
	c := reducing(t, 2, "ring_ll")
	require.NoError(t, errors.Join(os.Unsetenv("NCCL_ALGO"), os.Unsetenv("NCCL_PROTO"))) // until reducing restores them
	_, errs := measured(t, c)
	for _, err := range errs {
		require.Equal(t, "refused", reason(t, err))
		require.ErrorContains(t, err, "nccl 2.28.9 takes no algorithm for a call")
	}

	t.Setenv("CX_FAKE_NCCL_VERSION", "23102")
	for _, algorithm := range []string{"ring_ll", "tree_simple", ""} {
		collective.Of(&c).Algorithm = algorithm
		d, errs := measured(t, c)
		require.Equal(t, []error{nil, nil}, errs)
		require.Equal(t, cmp.Or(algorithm, "tree_ll"), d.Measurement.Rows[0].Algorithm)
		require.Equal(t, map[bool]string{true: "ncclAllReduce", false: "ncclAllReduceConfig"}[algorithm == ""], d.Measurement.Path)
	}
	collective.Of(&c).Algorithm = "nvls_simple"
	_, errs = measured(t, c)
	require.Equal(t, "refused: nvls_simple not offered, ncclAllReduceConfig ncclInvalidArgument", reason(t, errs[0]))
}

// A number of CTAs is in the environment of the ranks or, from 2.31 on, in the configuration of each call. Small
// operations use fewer.
func TestCTAs(t *testing.T) {
	setUp(t)
	used := func(c plan.Case) (all []runner.Used) {
		d, errs := measured(t, c)
		require.Equal(t, []error{nil, nil}, errs)
		require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
		for _, row := range d.Measurement.Rows {
			all = append(all, runner.Used{Algorithm: row.Algorithm, CTAs: row.CTAs})
		}
		return all
	}
	of := func(algorithm string, small, large int) []runner.Used {
		return []runner.Used{{Algorithm: algorithm, CTAs: small}, {Algorithm: algorithm, CTAs: large}}
	}
	c := reducing(t, 2, "")
	require.Equal(t, of("tree_ll", 1, 2), used(c))
	t.Run("environment", func(t *testing.T) {
		c := reducing(t, 2, "ring_ll")
		collective.Of(&c).CTAs = 8
		setEnv(t, &c)
		require.Equal(t, "8", c.Env["NCCL_MIN_CTAS"])
		require.Equal(t, of("ring_ll", 1, 8), used(c))
	})
	t.Run("call", func(t *testing.T) {
		t.Setenv("CX_FAKE_NCCL_VERSION", "23102")
		c := reducing(t, 2, "")
		collective.Of(&c).CTAs = 4
		require.Equal(t, of("tree_ll", 1, 4), used(c))
		collective.Of(&c).Algorithm = "ring_ll128"
		require.Equal(t, of("ring_ll128", 1, 4), used(c))
	})
	t.Run("ignored", func(t *testing.T) {
		c := reducing(t, 2, "")
		collective.Of(&c).CTAs = 4
		t.Setenv("NCCL_MIN_CTAS", "16")
		_, errs := measured(t, c)
		for _, err := range errs {
			require.Equal(t, "refused: auto(4) not offered, the library used tree_ll(16)", reason(t, err))
		}
	})
}

// A library that ignores what it is asked for does not measure another algorithm under its name.
func TestAnAlgorithmThatIsIgnored(t *testing.T) {
	setUp(t)
	c := reducing(t, 2, "ring_ll")
	t.Setenv("NCCL_ALGO", "Tree")
	_, errs := measured(t, c)
	for _, err := range errs {
		require.Equal(t, "refused: ring_ll not offered, the library used tree_ll", reason(t, err))
	}
}

// A rank that adds in another order now and then is found, with the operation, its rank, the element and the bit.
func TestUnrepeatable(t *testing.T) {
	setUp(t)
	c := reducing(t, 3, "")
	collective.Of(&c).Measure.Repeatable = 6
	d, errs := measured(t, c)
	require.Equal(t, []error{nil, nil, nil}, errs)
	for _, row := range d.Measurement.Rows {
		require.Equal(t, &result.Repeatability{Operations: 6, Compared: 3 * row.Count}, row.Repeatable)
	}

	t.Setenv("CX_FAKE_NCCL_REORDER", "1:4")
	d, errs = measured(t, c)
	require.Equal(t, []error{nil, nil, nil}, errs)
	require.Equal(t, result.Success, d.Outcome.Status, "%v: exact sums do not depend on the order", d.Outcome.Reasons)
	v := d.Measurement.Rows[1].Repeatable
	require.Positive(t, v.Elements)
	require.GreaterOrEqual(t, v.Bits, v.Elements)
	require.Equal(t, 1, v.First.Rank)
	require.Positive(t, v.First.Operation)
}
