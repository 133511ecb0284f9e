package rank

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result/resulttest"
)

// scripted is a runner that does what its case id says.
type scripted struct{ closed *int }

func (r scripted) Close() error { *r.closed++; return nil }

func (r scripted) Run(_ context.Context, s *Session, c plan.Case) error {
	if err := s.Emit(KindFacts, Facts{DeviceProduct: "One"}); err != nil {
		return err
	}
	if err := s.Emit("sample", map[string]string{"case": c.CaseID, "scope": s.Scope}); err != nil {
		return err
	}
	switch c.CaseID {
	case "coded":
		return &Error{Code: "refused", Err: errors.New("private")}
	case "plain":
		return errors.New("private")
	case "panics":
		panic("private")
	}
	return nil
}

// loop runs one rank over cases and returns its store, how often its runner
// was opened and closed, and its error.
func loop(t *testing.T, ids ...string) (store rendezvous.Store, opened, closed int, log string, err error) {
	t.Helper()
	files, err := rendezvous.OpenFile(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	orders := []Order{}
	for _, id := range ids {
		c := resulttest.CollectiveCase()
		c.CaseID = id
		orders = append(orders, Order{Scope: "case-" + id, Case: c})
	}
	for i, o := range append(orders, Order{Stop: true}) {
		raw, err := json.Marshal(o)
		require.NoError(t, err)
		require.NoError(t, files.Put(t.Context(), OrderKey(i+1), raw))
	}
	find := func(c plan.Case) (Opener, error) {
		if c.CaseID == "unknown" {
			return nil, &Error{Code: "library-missing", Err: errors.New("private")}
		}
		return func(context.Context, *Session, plan.Case) (Runner, error) {
			opened++
			return scripted{&closed}, nil
		}, nil
	}
	var b bytes.Buffer
	err = Loop(t.Context(), Place{World: 1}, files, find, nil, &b)
	return files, opened, closed, b.String(), err
}

func TestLoopKeepsItsRunnerWarm(t *testing.T) {
	store, opened, closed, _, err := loop(t, "a", "b")
	require.NoError(t, err)
	require.Equal(t, 1, opened)
	require.Equal(t, 1, closed)
	for _, id := range []string{"a", "b"} {
		s, err := ReadStream(store, "case-"+id, 0)
		require.NoError(t, err)
		require.True(t, s.Done)
		require.Nil(t, s.Failure)
		require.Equal(t, "One", s.Facts.DeviceProduct)
		require.Len(t, s.Records, 1)
		require.JSONEq(t, `{"case":"`+id+`","scope":"case-`+id+`"}`, string(s.Records[0].Data))
	}
}

func TestLoopEndsWithTheFirstFailure(t *testing.T) {
	for id, code := range map[string]string{
		"coded": "refused", "plain": "internal-error", "panics": "internal-error", "unknown": "library-missing",
	} {
		t.Run(id, func(t *testing.T) {
			store, _, closed, log, err := loop(t, id, "never")
			require.ErrorContains(t, err, "private")
			require.Contains(t, log, "=== rank 0: case-"+id)
			require.Zero(t, closed, "what failed may hang when it is closed")
			s, err := ReadStream(store, "case-"+id, 0)
			require.NoError(t, err)
			require.False(t, s.Done)
			require.Equal(t, code, s.Failure.Code)
			require.Contains(t, s.Failure.Text, "private")
			never, err := ReadStream(store, "case-never", 0)
			require.NoError(t, err)
			require.Equal(t, Stream{}, never)
		})
	}
}

func TestReadStreamRefusesWhatIsNoRecord(t *testing.T) {
	files, err := rendezvous.OpenFile(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, files.Append(StreamKey("c", 0), []byte(`{"kind":"sample"}`)))
	require.NoError(t, files.Append(StreamKey("c", 0), []byte(`garbage`)))
	s, err := ReadStream(files, "c", 0)
	require.ErrorContains(t, err, "c/rank-0: record 2")
	require.NotErrorIs(t, err, ErrStore)
	require.Len(t, s.Records, 1, "what came before counts")
	require.NoError(t, files.Close())
}

// The shard looks at lines without decoding them, so their spelling is a contract.
func TestLinesAreKnownByTheirBeginning(t *testing.T) {
	spell := func(kind string, data any) []byte {
		raw, err := json.Marshal(data)
		require.NoError(t, err)
		line, err := json.Marshal(Record{Kind: kind, Data: raw})
		require.NoError(t, err)
		return line
	}
	require.Equal(t, EndedDone, EndingOf(spell(KindDone, nil)))
	require.Equal(t, EndedFailure, EndingOf(spell(KindFailure, Failure{Code: "refused"})))
	require.Equal(t, NotEnded, EndingOf(spell("sample", KindDone)))
	f, ok := FactsOf(spell(KindFacts, Facts{DeviceProduct: "One"}))
	require.True(t, ok)
	require.Equal(t, "One", f.DeviceProduct)
	_, ok = FactsOf(spell("sample", KindFacts))
	require.False(t, ok)
}
