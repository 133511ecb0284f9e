package shard

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/simulation"
)

// noMachines is a launcher that must not be asked.
type noMachines struct{ t *testing.T }

func (l noMachines) Allocate(context.Context) (launch.Allocation, error) {
	l.t.Error("a case without ranks asked for machines")
	return nil, errors.New("no machines")
}

// computing is a shard whose first case is computed by f, and the second as it should be.
func computing(t *testing.T, f Compute) *Shard {
	fills := func(_ context.Context, d result.Document) error {
		done := resulttest.Simulation(d.Head().Identity.Case, resulttest.Attempt())
		d.(*simulation.Document).Simulation, d.Head().Outcome = done.Simulation, done.Outcome
		return nil
	}
	cases := plantest.Simulations()[:2]
	s := &Shard{
		Cell:     plan.Cell{ID: "computed", SKU: "local", Backend: "simulator", Vendor: "host", Maturity: "reference", Image: "an-image"},
		Launcher: noMachines{t}, Results: t.TempDir(), Limit: time.Hour, Observer: &recorder{},
		Run: Run{
			RunID: "run-1", RunAttempt: "1", Generator: "cxrun test",
			Environment: func(_, _, _ map[string]string) map[string]string { return map[string]string{"NCCL_ALGO": "ring"} },
			Screen:      provenance.NewScreen("secret"),
		},
		Families: Registry{simulation.Name: {Computes: map[string]Compute{"simulator": func(ctx context.Context, d result.Document) error {
			if f != nil && d.Head().Identity.CaseID == cases[0].CaseID {
				return f(ctx, d)
			}
			return fills(ctx, d)
		}}}},
	}
	for _, c := range cases {
		s.Cases = append(s.Cases, plan.Requested{SKU: c.SKU, Disposition: plan.Runnable, Case: c, BudgetSeconds: 60})
		s.Cell.CaseIDs = append(s.Cell.CaseIDs, c.CaseID)
	}
	return s
}

// Cases without ranks are computed in this process, on no machine: their documents tell
// nothing of this one. A later shard keeps them.
func TestComputed(t *testing.T) {
	s := computing(t, nil)
	counts, err := s.Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, Counts{Passed: 2}, counts)
	for _, d := range readDocs(s.Results) {
		require.NoError(t, result.Validate(d))
		h := d.Head()
		require.Equal(t, result.Success, h.Outcome.Status)
		require.Nil(t, h.Elapsed)
		require.Empty(t, h.Provenance.Host)
		require.Empty(t, h.Provenance.Environment, "it would be part of the comparison key")
		require.Nil(t, h.Provenance.Image)
	}
	s.Resume = true
	counts, err = s.Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, Counts{Kept: 2}, counts)
}

// A computation that fails, hangs, panics or leaves nonsense has a document that says so, and
// the next case runs.
func TestComputedBadly(t *testing.T) {
	for _, tt := range []struct {
		name    string
		compute Compute
		reason  string
		failure string
		budget  int
	}{
		{"error", func(context.Context, result.Document) error { return errors.New("no such size\nand more") }, "refused", "no such size", 60},
		{"panic", func(context.Context, result.Document) error { panic("out of range") }, "internal-error: in the computation", "panic: out of range", 60},
		{"late", func(ctx context.Context, _ result.Document) error { <-ctx.Done(); return ctx.Err() }, "timeout: case budget of 1 s", "", 1},
		{"deaf", func(context.Context, result.Document) error { select {} }, "timeout: case budget of 1 s", "", 1},
		{"nothing", func(_ context.Context, d result.Document) error {
			d.Head().Outcome = result.Outcome{Status: result.Success, Reasons: result.Reasons{}}
			return nil
		}, "internal-error: no valid document", "", 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := computing(t, tt.compute)
			s.Cases[0].BudgetSeconds = tt.budget
			counts, err := s.Do(t.Context())
			require.NoError(t, err)
			require.Equal(t, Counts{Passed: 1, Failed: 1}, counts)
			end := s.Observer.(*recorder).ends[0]
			require.NoError(t, result.Validate(end.Document))
			require.Equal(t, result.Failed, end.Document.Head().Outcome.Status)
			require.Equal(t, tt.reason, end.Document.Head().Outcome.Reasons.String())
			require.Equal(t, tt.failure, end.Failure)
		})
	}
}

// A computation ends with its shard, as do the cases after it.
func TestComputedUntilCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := computing(t, func(ctx context.Context, _ result.Document) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	counts, err := s.Do(ctx)
	require.NoError(t, err)
	require.Equal(t, Counts{Failed: 2}, counts)
	for _, d := range readDocs(s.Results) {
		require.Equal(t, "skipped: cancelled", d.Head().Outcome.Reasons.String())
	}
}
