package rank

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
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
		return Refused("private")
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
			return nil, Coded(result.ReasonNoLibrary, errors.New("private"))
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
			require.Equal(t, code, s.Failure.Reason.String())
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
	r := NewReader(files, "c", 0)
	require.Error(t, r.Next())
	require.NoError(t, files.Append(StreamKey("c", 0), []byte(`{"kind":"done"}`)))
	require.ErrorContains(t, r.Next(), "record 2", "nothing after it is read")
	require.False(t, r.Done)
	require.NoError(t, files.Close())
}

// The shard follows a stream while its rank writes it: each record is read once, an
// incomplete one when it is whole, and the order of its members does not matter.
func TestReaderFollowsAStream(t *testing.T) {
	dir := t.TempDir()
	files, err := rendezvous.OpenFile(dir)
	require.NoError(t, err)
	require.NoError(t, files.Append(StreamKey("c", 0), []byte(`{"data":{"device_product":"One"},"kind":"facts"}`)))
	r := NewReader(files, "c", 0)
	require.NoError(t, r.Next())
	require.Equal(t, "One", r.Facts.DeviceProduct)
	require.False(t, r.Ended())
	require.NoError(t, files.Append(StreamKey("c", 0), []byte(`{"kind":"sample"}`)))
	require.NoError(t, r.Next())
	require.NoError(t, r.Next())
	require.Len(t, r.Records, 1)

	stream, err := os.OpenFile(filepath.Join(dir, StreamKey("c", 0)+"@stream"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer stream.Close()
	_, err = stream.WriteString(`{ "kind": "failure", "data": {"reason"`)
	require.NoError(t, err)
	require.NoError(t, r.Next())
	require.False(t, r.Ended())
	_, err = stream.WriteString(`: "refused"} }` + "\n")
	require.NoError(t, err)
	require.NoError(t, r.Next())
	require.True(t, r.Ended())
	require.Equal(t, "refused", r.Failure.Reason.String())
	require.NoError(t, files.Close())
}

// Files come with the case, whole or not at all.
func TestFile(t *testing.T) {
	sum := sha256.Sum256([]byte("plan"))
	digest := hex.EncodeToString(sum[:])
	s := &Session{files: map[string][]byte{digest: []byte("plan")}}
	content, err := s.File(digest)
	require.NoError(t, err)
	require.Equal(t, "plan", string(content))
	s.files[digest] = []byte("plans")
	_, err = s.File(digest)
	require.ErrorContains(t, err, "must be "+digest)
	_, err = s.File("0")
	require.EqualError(t, err, "no file with SHA-256 0 came with the case")
}
