package fold

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// Expected holds the required values of every document's run. An empty field is not compared.
type Expected struct {
	RunID        string
	SourceSHA    string
	MatrixSHA256 string
	// unnamed accepts documents that name no matrix, as early versions wrote them.
	unnamed bool
}

var errOtherRun = errors.New("document of another run")

// of returns e with the digest of m, if m came from a file.
func (e Expected) of(m *plan.Matrix) Expected {
	if m != nil {
		e.unnamed = m.Archived
		e.MatrixSHA256 = cmp.Or(e.MatrixSHA256, m.SHA256)
	}
	return e
}

// check returns an error if a document does not match.
func (e Expected) check(h result.Head) error {
	for _, f := range []struct {
		name, want, got string
		unnamed         bool
	}{
		{"run id", e.RunID, h.RunID, false},
		{"source SHA", e.SourceSHA, h.SourceSHA, false},
		{"matrix digest", e.MatrixSHA256, h.MatrixSHA256, e.unnamed},
	} {
		if f.want == "" || f.got == f.want || f.got == "" && f.unnamed {
			continue
		}
		return fmt.Errorf("%w: its %s is %q, expected %q", errOtherRun, f.name, f.got, f.want)
	}
	return nil
}
