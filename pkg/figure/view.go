package figure

import "github.com/collectivex/collectivex/pkg/result"

// Shapes of a view.
const (
	// Lines has a line over the X of its points for each series.
	Lines = "lines"
	// Grid has a square for each series: rank (row) to rank (column). X is row·world+column.
	Grid = "grid"
)

// View is a chart of the HTML page, and its tables: series of one kind, the facets that distinguish them,
// and the figures that can be shown.
type View struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Note  string `json:"note"`
	Shape string `json:"shape"`
	X     Axis   `json:"x"`
	// Facets distinguish the series, in addition to the run, SKU, backend and ranks of the case.
	Facets []Facet `json:"facets"`
	// Swap is the title of a facet of numbers that a reader may exchange with X.
	Swap string `json:"swap,omitempty"`
	// Rates are shown besides the latency. The first one is the default, unless Latency is set.
	Rates   []Rate `json:"rates"`
	Latency bool   `json:"latency"`
	// Time names the time of a point if it is one figure without percentiles or samples, such as the time
	// of a model. Empty: the latency of samples.
	Time string `json:"time,omitempty"`
	// Fits: start-up latency and bandwidth may be fitted to the times, over an X of bytes.
	Fits bool `json:"hasFits"`
	// Reverse: the series of a document are in the reverse order of their first points, so that the last
	// ones are shown by default.
	Reverse bool `json:"-"`
}

// Axis is the X of a view. Its scale is logarithmic.
type Axis struct {
	Title string `json:"title"`
	Unit  string `json:"unit,omitempty"` // of a number that is not bytes, such as tokens
	Bytes bool   `json:"bytes"`          // labels have binary prefixes
}

// Facet is a property that distinguishes series. Different kinds of measurement, such as timing modes, are a
// facet of which a chart shows one value by default.
type Facet struct {
	Title  string   `json:"title"`
	Values []string `json:"values"` // in this order; others follow as found
	One    bool     `json:"one"`    // different values are different kinds of measurement
	// Number: values contain a number, by which they are sorted. A value that is only a number is shown
	// after the title, as in batch 4.
	Number bool `json:"number"`
}

// Rate is a figure that is work divided by time or, if Given is set, any other figure derived from medians,
// which may be 0 or negative. A View whose first Rate is Given sets Latency.
type Rate struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Unit  string `json:"unit"` // empty for a ratio
	Given bool   `json:"given,omitempty"`
}

// Series is one kind of measurement in one document, over the rungs of a ladder.
type Series struct {
	View   string   // the View's Name
	Facets []string // a value for each of the View's Facets
	// Basis describes what the bytes of the rates count; empty if there is a single basis.
	Basis  string
	Points []Point
	// Spreads has, for each of Points, the spread of its time over repeats. Only Merge sets it.
	Spreads []Spread

	bases []string // the distinct bases of its points
}

// Point is one rung.
type Point struct {
	X    int64
	Time result.Percentiles // microseconds
	// Work has a numerator for each of the View's Rates, so that Work/Time is in the rate's unit; 0 if the
	// point lacks the rate. For a Given rate it is the figure itself, or NaN if the point lacks it.
	Work    []float64
	Samples int
	// Slots is the number of buffers over which the operations rotated; 0 if not applicable. Points with
	// different slots are not compared.
	Slots int
	// Reason is why the point does not count. It is empty if the row is complete and passed its checks.
	Reason string
}
