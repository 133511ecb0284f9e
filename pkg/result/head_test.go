package result_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/result"
)

// Whoever makes a document makes its digest: a head that is printed in later jobs
// has nothing in it but values of closed lists and forms.
func TestHeadsAreOfClosedListsAndForms(t *testing.T) {
	inspect := func(change func(*result.Envelope)) error {
		d := resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt())
		change(d.Head())
		data, err := result.EncodeDocument(d)
		require.NoError(t, err)
		_, err = result.NewInspector(func(string) error { return nil }).Inspect(data)
		return err
	}
	require.NoError(t, inspect(func(*result.Envelope) {}))
	hostile := "x\n::error::y ##[add-mask]\x1b"
	require.ErrorContains(t, inspect(func(e *result.Envelope) { e.Outcome.Status = hostile }), "outcome.status")
	for what, change := range map[string]func(*result.Envelope){
		"closed list": func(e *result.Envelope) {
			e.Outcome = result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons(hostile)}
		},
		"published form": func(e *result.Envelope) {
			e.Outcome = result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons("timeout: " + hostile)}
		},
		"case id":     func(e *result.Envelope) { e.Identity.CaseID = hostile },
		"run_id":      func(e *result.Envelope) { e.Identity.AllocationFactors.RunID = &hostile },
		"run_attempt": func(e *result.Envelope) { e.Identity.AllocationFactors.RunAttempt = &hostile },
	} {
		err := inspect(change)
		require.ErrorIs(t, err, result.ErrForeign, what)
		require.ErrorContains(t, err, what)
	}
}
