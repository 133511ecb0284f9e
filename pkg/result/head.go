package result

import (
	"fmt"
	"regexp"
	"slices"
)

// closed returns an error if a field of the head is outside its closed list or pattern. The check is needed
// although digests match: anybody can compute a digest, and later jobs print heads.
func (h Head) closed() error {
	switch {
	case !slices.Contains(statuses, h.Status):
		return fmt.Errorf("%w: outcome.status %q, expected one of %q", ErrForeign, h.Status, statuses)
	case !caseID.MatchString(h.CaseID):
		return fmt.Errorf("%w: identity.case_id %q is not a case id", ErrForeign, h.CaseID)
	case !runID.MatchString(h.RunID):
		return fmt.Errorf("%w: run_id %q is not a run id", ErrForeign, h.RunID)
	case !runAttempt.MatchString(h.RunAttempt):
		return fmt.Errorf("%w: run_attempt %q is not a number", ErrForeign, h.RunAttempt)
	}
	for _, r := range h.Reasons {
		if err := r.Check(); err != nil {
			return fmt.Errorf("%w: %w", ErrForeign, err)
		}
	}
	return nil
}

// A run id and a run attempt may be missing.
var (
	caseID     = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)
	runID      = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$`)
	runAttempt = regexp.MustCompile(`^[0-9]{0,9}$`)
)
