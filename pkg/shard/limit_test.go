package shard

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

func TestAShardNearItsLimitEndsOrderly(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1))
	s.Limit = endReserve + minBudget - time.Millisecond
	counts, docs, _ := do(t, s)
	require.Equal(t, Counts{Failed: 2}, counts)
	for _, d := range docs {
		require.Equal(t, result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons("skipped: shard time limit")}, d.Outcome)
		require.Empty(t, d.Measurement.Rows)
	}

	// With time again they have their chance, and keep both documents.
	again := fakeShard(s.Results, scratchOf(s), s.Cases...)
	again.Resume = true
	counts, err := again.Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, Counts{Passed: 2}, counts)
	docList := readDocs(s.Results)
	require.Len(t, docList, 4)
	require.Equal(t, 2, docList[0].Head().Identity.AttemptOrdinal)
}

func TestTheLimitEndsTheRunningCase(t *testing.T) {
	need.Full(t)
	t.Parallel()
	s := withVariable(fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1)), rank.FaultVariable, "case=fake-case-00-*,rank=0,kind=hang")
	s.Limit = endReserve + minBudget + 10*time.Second
	_, docs, _ := do(t, s)
	// A second reason says where the ranks were.
	require.Equal(t, "timeout: shard time limit", docs["fake-case-00-fake-all-reduce-float-sum-w2-warm"].Outcome.Reasons[0].String())
	require.Equal(t, resulttest.Reasons("skipped: shard time limit"), docs["fake-case-01-fake-all-reduce-float-sum-w2-warm"].Outcome.Reasons)
}

// The limit holds what comes after a case too, whatever ranks have left.
func TestTheLimitEndsAssembly(t *testing.T) {
	need.Full(t)
	t.Parallel()
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1))
	family := s.Families[collective.Name]
	family.Assemble = func(result.Document, []rank.Stream) error {
		<-t.Context().Done()
		return nil
	}
	s.Families[collective.Name] = family
	s.Limit = endReserve + minBudget + 10*time.Second
	var counts Counts
	ended := make(chan error, 1)
	go func() {
		var err error
		counts, err = s.Do(t.Context())
		ended <- err
	}()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(5 * time.Minute):
		require.Fail(t, "the shard waits for the assembly")
	}
	require.Equal(t, Counts{Failed: 2}, counts)
	docs := readDocs(s.Results)
	require.Equal(t, resulttest.Reasons("timeout: shard time limit"), docs[0].Head().Outcome.Reasons)
	require.Equal(t, resulttest.Reasons("skipped: shard time limit"), docs[1].Head().Outcome.Reasons)
	requireNoLitter(t, s)
}

// A shard whose time ends while it writes samples does not write on. Data that were wrong stay so.
func TestTheLimitEndsSamples(t *testing.T) {
	late := resulttest.Reasons("timeout: shard time limit")
	for _, tt := range []struct{ judged, want result.Outcome }{
		{result.Outcome{Status: result.Success, Reasons: result.Reasons{}}, result.Outcome{Status: result.Failed, Reasons: late}},
		{
			result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}}},
			result.Outcome{Status: result.Invalid, Reasons: append(result.Reasons{{Code: result.ReasonSemantics}}, late...)},
		},
	} {
		s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1))
		c := s.Cases[0].Case
		require.NoError(t, os.Mkdir(filepath.Join(s.Results, result.SamplesDir), 0o755))
		r := &runner{Shard: s, started: time.Now(), history: history{cases: map[string]*past{c.CaseID: {attempts: 1}}}, private: slog.New(slog.DiscardHandler)}
		family := s.Families[collective.Name]
		family.Assemble = func(d result.Document, streams []rank.Stream) error {
			r.started = r.started.Add(-s.Limit) // the time ends here
			err := fakeAssemble(d, streams)
			if d.Head().Outcome = tt.judged; tt.judged.Status == result.Invalid {
				check := &d.(*collective.Document).Measurement.Rows[0].Check
				check.Passed, check.Wrong = false, 1
			}
			return err
		}
		s.Families[collective.Name] = family
		record := rank.Record{Kind: "size", Data: json.RawMessage(`{"bytes":8}`)}
		facts := &rank.Facts{DeviceProduct: "Fake One", NUMANode: -1}
		doc, err := r.write(0, ended{streams: []rank.Stream{
			{Rank: 0, Done: true, Facts: facts, Records: []rank.Record{record}},
			{Rank: 1, Done: true, Facts: facts, Records: []rank.Record{record}},
		}})
		require.NoError(t, err)
		require.Equal(t, tt.want, doc.Head().Outcome)
		require.Equal(t, tt.want, readDocs(s.Results)[0].Head().Outcome)
		left, err := os.ReadDir(filepath.Join(s.Results, result.SamplesDir))
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// A case that the limit cut off has another chance with time again, unless its data are wrong, and keeps both documents.
func TestResumeRunsWhatTheLimitCutOff(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1), fakeCase(2, 2, 1))
	r := &runner{Shard: s, started: time.Now(), history: history{cases: map[string]*past{}}, private: slog.New(slog.DiscardHandler)}
	stuck := result.ReasonTimeout.With("rank 0-1 after record 1")
	for i, o := range []result.Outcome{
		{Status: result.Failed, Reasons: result.Reasons{cutOff, stuck}},
		{Status: result.Failed, Reasons: result.Reasons{result.ReasonTimeout.With("case budget of 60 s"), stuck}},
		{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}, cutOff}},
	} {
		r.history.of(s.Cases[i].Case).attempts = 1
		doc, err := r.empty(s.Cases[i].Case)
		require.NoError(t, err)
		doc.Head().Outcome = o
		_, err = result.Write(s.Results, doc, i, func([]byte) error { return nil })
		require.NoError(t, err)
	}
	s.Resume = true
	counts, err := s.Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, Counts{Passed: 1, Kept: 2, KeptFailed: 2}, counts)
	docs := readDocs(s.Results)
	require.Len(t, docs, 4)
	require.Equal(t, 2, docs[0].Head().Identity.AttemptOrdinal)
}

func TestCancelEndsOrderly(t *testing.T) {
	t.Parallel()
	s := withVariable(fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1)), rank.FaultVariable, "case=fake-case-00-*,rank=0,kind=hang")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel)
	counts, err := s.Do(ctx)
	require.NoError(t, err)
	require.Equal(t, Counts{Failed: 2}, counts)
	for _, d := range byCase(t, s.Results) {
		require.Equal(t, resulttest.Reasons("skipped: cancelled"), d.Outcome.Reasons)
	}
	requireNoLitter(t, s)
}
