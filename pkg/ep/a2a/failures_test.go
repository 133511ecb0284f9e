package a2a

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

func a2aCase(world int, change func(c *plan.Case)) plan.Case {
	return eptest.Case(world, func(c *plan.Case) {
		c.Backend, ep.Of(c).Ladder = "a2a", plan.Ladder{6}
		change(c)
	})
}

// What the kernels cannot do is refused with their limits, before anything is measured.
func TestRefusals(t *testing.T) {
	setUp(t)
	for _, refused := range []struct {
		text   string
		change func(b *ep.Block)
	}{
		{"a2a needs a hidden size that is a multiple of 16, not 40", func(b *ep.Block) { b.Hidden = 40 }},
		{"top-32", func(b *ep.Block) { b.TopK, b.Experts = 33, 64 }},
		{"1024 experts per rank", func(b *ep.Block) { b.Experts = 1025 }},
		{"every rung of ladder", func(b *ep.Block) { b.Mode, b.Ladder = ep.ModeLowLatency, plan.Ladder{257} }},
	} {
		c := a2aCase(1, func(c *plan.Case) { refused.change(ep.Of(c)) })
		s := eptest.Run(t, Open, "", c)[0][0]
		require.NotNil(t, s.Failure, refused.text)
		require.Equal(t, result.ReasonRefused, s.Failure.Reason.Code, s.Failure.Text)
		require.Contains(t, s.Failure.Text, refused.text)
	}
}

// An operation that the library says has failed never ends. The ranks learn it all the
// same, name it, and judge nothing that was left behind.
func TestAFailedOperationEndsTheCase(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_NCCL_ASYNC_ERROR", "1:40")
	for _, mode := range []string{ep.ModeNormal, ep.ModeLowLatency} {
		c := a2aCase(2, func(c *plan.Case) { ep.Of(c).Mode = mode })
		streams := eptest.Run(t, Open, "", c)[0]
		s := streams[1]
		require.NotNil(t, s.Failure)
		require.Equal(t, result.ReasonLibrary, s.Failure.Reason.Code, s.Failure.Text)
		require.Contains(t, s.Failure.Text, "ncclRemoteError")
		for _, r := range s.Records {
			require.NotContains(t, string(r.Data), `"passed":false`)
		}
	}
}

// A case that does not fit into the device's memory says how much it wanted.
func TestMemory(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_NCCL_MEMORY", "1000")
	s := eptest.Run(t, Open, "", a2aCase(1, func(*plan.Case) {}))[0][0]
	require.NotNil(t, s.Failure)
	require.Equal(t, result.ReasonMemory, s.Failure.Reason.Code, s.Failure.Text)
}

// Work that a library leaves on a stream of its own is not between the events of a window.
// A judgement that waited for the whole device would not see it, and would call such a case a
// success.
func TestWorkOnAnotherStreamIsFound(t *testing.T) {
	setUp(t)
	elsewhere := func(ctx context.Context, s *rank.Session, _ plan.Case) (rank.Runner, error) {
		library, gpu, err := gpurank.OpenNCCL(nccl.NCCL, s)
		if err != nil {
			return nil, err
		}
		a := newAdapter(s, library, gpu)
		if err := a.open(ctx, s, library, allKernels()); err != nil {
			return nil, err
		}
		stream := a.stream
		if a.stream, err = gpu.NewStream(); err != nil {
			return nil, err
		}
		return gpu.Around(runner.NewRunner(gpu, stream, a, gpu.Facts(gpurank.LibraryOf(library)))), nil
	}
	for _, mode := range []string{ep.ModeNormal, ep.ModeLowLatency} {
		c := brief(2, mode, "bf16")
		d := eptest.Document(t, c, eptest.Run(t, elsewhere, "", c)[0])
		require.NotEqual(t, result.Success, d.Outcome.Status, mode)
	}
}
