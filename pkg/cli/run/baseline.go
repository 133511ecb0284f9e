package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/compare"
	"github.com/collectivex/collectivex/pkg/result"
)

// baseline is an earlier measurement, and how much slower than it a new one may be.
type baseline struct {
	file, percent string
	side          *compare.Side
	accepted      float64 // as a fraction of the time
}

// readBaseline returns the baseline that the flags name, nil if they name none.
func readBaseline(s cli.Streams, o *bench.Output) (*baseline, error) {
	accepted, err := o.Regress()
	if err != nil || o.Baseline == "" {
		return nil, err
	}
	if err := checkInput(o.Baseline); err != nil {
		return nil, cli.UsageError("--baseline %w", err)
	}
	older, _, err := side(s, o.Baseline, nil)
	if err != nil {
		return nil, fmt.Errorf("--baseline: %w", err)
	}
	return &baseline{o.Baseline, strings.TrimSuffix(o.MaxRegress, "%") + "%", older, accepted}, nil
}

// slower returns a line for each size of a document whose median time exceeds the baseline's by more than is
// accepted, and a line for each case without a comparable case, and each metric without all sizes, in the baseline.
func (b *baseline) slower(d result.Document) (lines []string) {
	if b == nil || d.Head().Outcome.Status != result.Success {
		return nil // its failure is reported
	}
	newer := &compare.Side{}
	newer.Add(d)
	c := compare.Of(b.side, newer, compare.Options{})
	for i := range c.Cases {
		switch k := &c.Cases[i]; {
		case k.Status == compare.Gone: // other cases of the baseline
		case k.Shift == nil:
			lines = append(lines, b.unlike(k))
		case !strings.HasSuffix(k.Metric, " p99"):
			lines = append(lines, b.beyond(k)...)
			if n := len(k.Unpaired); n > 0 {
				more := ""
				if n > 1 {
					more = fmt.Sprintf(" and %d more", n-1)
				}
				lines = append(lines, fmt.Sprintf("%s, %s: %s does not have %s%s", k.CaseID, k.Metric, b.file, k.Unpaired[0], more))
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// beyond returns a line for each rung of a metric that is too slow.
func (b *baseline) beyond(k *compare.Case) (lines []string) {
	rungs := k.Rungs
	if len(rungs) == 0 {
		rungs = []compare.Rung{{Rung: k.At, RungShift: compare.RungShift{OldUs: k.Shift.OldUs, NewUs: k.Shift.NewUs}}}
	}
	for i := range rungs {
		r := &rungs[i]
		if slower := r.NewUs/r.OldUs - 1; slower > b.accepted {
			lines = append(lines, fmt.Sprintf("%s, %s, %s: %s us is %.1f %% slower than %s us in %s, and --max-regress is %s", k.CaseID, r.Rung,
				k.Metric, bench.Shortest(r.NewUs), 100*slower, bench.Shortest(r.OldUs), b.file, b.percent))
		}
	}
	return lines
}

// unlike says why a case has no counterpart in the baseline.
func (b *baseline) unlike(k *compare.Case) string {
	why := k.Why
	for _, d := range k.Differs {
		why = strings.TrimPrefix(why+"; "+d.String(), "; ")
	}
	return fmt.Sprintf("%s cannot be compared with %s: %s", k.CaseID, b.file, cmp.Or(why, "it has no such case"))
}
