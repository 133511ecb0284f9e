package page

import (
	"errors"

	"github.com/collectivex/collectivex/pkg/compare"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
)

// Verdict is what compare says of a later run against the first: of the cases that both
// have enough repeats of, and of those that the later run lost.
type Verdict struct {
	Run, First string
	Beside     []string   // what differs beside the comparison keys
	Rows       [][]string // by compare.Columns
}

// series are the repeats of a case in a run.
type series struct {
	run int // index into Runs
	key string
}

// judge compares the later runs with the first if both have enough repeats of a case. It
// reads their documents again: most reports have no repeats, and need not keep figures.
func (b *builder) judge(in []string) error {
	repeats := map[series]int{}
	for _, c := range b.Cases {
		if c.Status == result.Success {
			repeats[series{c.Run, c.Key}]++
		}
	}
	enough := map[int]bool{} // runs
	for s, n := range repeats {
		if s.run > 0 && n >= compare.LeastRuns && repeats[series{0, s.key}] >= compare.LeastRuns {
			enough[0], enough[s.run] = true, true
		}
	}
	if len(enough) == 0 {
		return nil
	}
	runs := map[string]int{}
	sides := map[int]*compare.Side{}
	for _, c := range b.Cases {
		if enough[c.Run] {
			runs[c.source], sides[c.Run] = c.Run, &compare.Side{}
		}
	}
	for rec, err := range fold.Read(in, true) {
		if _, ok := errors.AsType[*fold.Problem](err); ok {
			continue
		} else if err != nil {
			return err
		}
		run, stands := runs[rec.Source]
		if !stands {
			continue
		}
		delete(runs, rec.Source) // a file that is named twice counts once
		if d, err := rec.Document(); err == nil {
			sides[run].Add(d)
		}
	}
	for run := 1; run < len(b.Runs); run++ {
		if !enough[run] {
			continue
		}
		c := compare.Of(sides[0], sides[run], compare.Options{})
		v := Verdict{Run: b.Runs[run].ID, First: b.Runs[0].ID}
		for _, d := range c.Beside {
			v.Beside = append(v.Beside, sanitize.Line(d.String()))
		}
		for i := range c.Cases {
			k := &c.Cases[i]
			if s := k.Shift; !k.Lost && (s == nil || min(s.OldRuns, s.NewRuns) < compare.LeastRuns) {
				continue
			}
			b.judged[series{run, k.Key}] = true
			for _, row := range k.Rows(true) {
				for j := range row {
					row[j] = sanitize.Line(row[j])
				}
				v.Rows = append(v.Rows, row)
			}
		}
		b.Verdicts = append(b.Verdicts, v)
	}
	return nil
}
