package study

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
)

// ErrorsFile is the name of the file that compares measured and simulated times, for each case and size with
// both.
const ErrorsFile = "errors.csv"

// Comparison is the error of simulated times relative to measured ones, for one case or all cases with a model.
type Comparison struct {
	Model string
	Case  string // empty: all cases
	Sizes int
	// Mean and Worst are errors, relative to the shorter of the two times: exp |ln(simulated/measured)| − 1.
	// Mean is the geometric mean over the sizes, and Worst the maximum.
	Mean, Worst float64
	WorstCase   string // the case with the error Worst
	WorstBytes  int64  // the size with the error Worst

	logs float64 // sum of |ln(simulated/measured)|
}

// String returns the comparison as one line of text.
func (c *Comparison) String() string {
	return fmt.Sprintf("%s with model %s: simulated times are %.1f %% off measured ones in the geometric mean, and %.1f %% at worst (%s at %d bytes)",
		cmp.Or(c.Case, "all cases"), c.Model, 100*c.Mean, 100*c.Worst, c.WorstCase, c.WorstBytes)
}

// add adds the ratio of simulated to measured time at one size of a case.
func (c *Comparison) add(of string, bytes int64, ratio float64) {
	off := math.Abs(math.Log(ratio))
	c.Sizes++
	c.logs += off
	c.Mean = math.Expm1(c.logs / float64(c.Sizes))
	if e := math.Expm1(off); c.Sizes == 1 || e > c.Worst {
		c.Worst, c.WorstCase, c.WorstBytes = e, of, bytes
	}
}

// compared has the two rows of a case at one size.
type compared struct{ measured, simulated *Row }

// compared calls f for each size of each case and model that was measured and simulated.
func (m *Manifest) compared(rows []Row, f func(of *Case, model string, pair compared)) {
	type point struct {
		series string
		bytes  int64
	}
	at := map[point]*Row{}
	for i := range rows {
		at[point{rows[i].Series, rows[i].Bytes}] = &rows[i]
	}
	for i := range m.Cases {
		c := &m.Cases[i]
		for _, model := range c.Models {
			for _, n := range m.Elements {
				bytes := n * m.ElementBytes
				measured, simulated := at[point{c.Name + " on " + c.Backend, bytes}], at[point{c.Name + " " + model, bytes}]
				if c.Backend != "" && measured != nil && simulated != nil {
					f(c, model, compared{measured, simulated})
				}
			}
		}
	}
}

// Compare compares the simulated times in rows with the measured ones. It returns a comparison for each case and
// each of its models, followed by one for all cases of each model that has several.
func (m *Manifest) Compare(rows []Row) []Comparison {
	var cases, models []Comparison
	find := func(list *[]Comparison, of, model string) *Comparison {
		for i := range *list {
			if c := &(*list)[i]; c.Case == of && c.Model == model {
				return c
			}
		}
		*list = append(*list, Comparison{Case: of, Model: model})
		return &(*list)[len(*list)-1]
	}
	m.compared(rows, func(of *Case, model string, p compared) {
		ratio := float64(p.simulated.Picoseconds) / float64(p.measured.Picoseconds)
		find(&cases, of.Name, model).add(of.Name, p.measured.Bytes, ratio)
		find(&models, "", model).add(of.Name, p.measured.Bytes, ratio)
	})
	for _, all := range models {
		if find(&cases, all.WorstCase, all.Model).Sizes < all.Sizes {
			cases = append(cases, all)
		}
	}
	return cases
}

// errorsTable returns the content of ErrorsFile, or nil if nothing was both measured and simulated.
func (m *Manifest) errorsTable(rows []Row) []byte {
	lines := [][]string{{"case", "model", "bytes", "measured_ns", "simulated_ns", "simulated/measured"}}
	m.compared(rows, func(of *Case, model string, p compared) {
		lines = append(lines, []string{
			of.Name, model, strconv.FormatInt(p.measured.Bytes, 10), nanoseconds(p.measured.Picoseconds), nanoseconds(p.simulated.Picoseconds),
			strconv.FormatFloat(float64(p.simulated.Picoseconds)/float64(p.measured.Picoseconds), 'f', 3, 64),
		})
	})
	if len(lines) == 1 {
		return nil
	}
	return csvOf(lines)
}
