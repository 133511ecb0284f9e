package python

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/shard"
)

// rankMain is a rank that a launcher started.
func rankMain(args []string) error {
	var p rank.Place
	f := flag.NewFlagSet("rank", flag.ExitOnError)
	store := f.String("store", "", "")
	f.IntVar(&p.Rank, "rank", 0, "")
	f.IntVar(&p.World, "world", 0, "")
	f.IntVar(&p.LocalRank, "local-rank", 0, "")
	f.IntVar(&p.Node, "node", 0, "")
	_ = f.Parse(args)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := rendezvous.Join(*store, os.Getenv)
	if err != nil {
		return err
	}
	defer s.Close()
	find := func(c plan.Case) (rank.Opener, error) { return openerOf(c.Backend), nil }
	return rank.Loop(ctx, p, s, find, nil, os.Stderr)
}

// ends keeps how the cases of a shard ended.
type ends map[string]result.Outcome

func (ends) Started(int, int, plan.Case, int) {}

func (e ends) Ended(_, _ int, end shard.End) {
	h := end.Document.Head()
	e[h.Identity.CaseID] = h.Outcome
}
func (ends) Kept(int, int, plan.Case, bool) {}
func (ends) Warn(string)                    {}

// A library that raises, dies or hangs with Python's lock costs its case, with the code
// of that; the cases before and after it pass.
func TestAFailingLibraryCostsItsCaseOnly(t *testing.T) {
	need.Full(t)
	setUp(t, "deep_ep-1")
	const name, hangs = "deepep-legacy", "1:20:gil"
	var requested []plan.Requested
	want := map[string]string{}
	for _, of := range []struct{ mode, precision, fault, reason string }{
		{ep.ModeNormal, "bf16", "", ""},
		{ep.ModeNormal, "fp8", "1:20:raise", "library-error: deepep-legacy RuntimeError"},
		{ep.ModeLowLatency, "bf16", "1:20:die", "rank-died: rank 1 exit 2"},
		{ep.ModeLowLatency, "fp8", hangs, "timeout: case budget of 10 s"},
		{ep.ModeNormal, "bf16", "", ""},
	} {
		c := caseOf(name, of.mode, of.precision, func(c *plan.Case) {
			if of.fault != "" {
				c.Env = map[string]string{"CX_STANDIN_FAULT": of.fault}
			}
			if len(requested) > 0 {
				ep.Of(c).Routing = "balanced"
			}
		})
		q := plan.Requested{SKU: c.SKU, Disposition: plan.Runnable, Case: c, BudgetSeconds: 600}
		if of.fault == hangs {
			q.BudgetSeconds = 10
		}
		requested = append(requested, q)
		want[c.CaseID] = of.reason
	}
	require.Len(t, want, len(requested))
	got := ends{}
	s := &shard.Shard{
		Cell:  plan.Cell{ID: "cell", SKU: requested[0].SKU, Backend: name, Vendor: "nvidia", Product: "stand-in", Maturity: "reference"},
		Cases: requested,
		Run: shard.Run{
			RunID: "run-1", RunAttempt: "1", Generator: "test",
			Environment: func(_, _, _ map[string]string) map[string]string { return nil },
			Screen:      provenance.NewScreen("secret"),
		},
		Families: shard.Registry{ep.Name: {Assemble: runner.Assemble, Backends: map[string]rank.Opener{name: openerOf(name)}}},
		Fits:     func(rank.Facts) error { return nil },
		Launcher: launch.Local{Starter: command.Host{}, Program: []string{os.Args[0], "rank"}, Scratch: t.TempDir()},
		Results:  t.TempDir(), Limit: time.Hour, Observer: got,
	}
	for _, q := range requested {
		s.Cell.CaseIDs = append(s.Cell.CaseIDs, q.Case.CaseID)
	}
	_, err := s.Do(t.Context())
	require.NoError(t, err)
	for id, reason := range want {
		status := result.Failed
		if reason == "" {
			status = result.Success
		}
		require.Equal(t, status, got[id].Status, "%s: %v", id, got[id].Reasons)
		require.True(t, strings.HasPrefix(got[id].Reasons.String(), reason), "%s: %v", id, got[id].Reasons)
	}
}
