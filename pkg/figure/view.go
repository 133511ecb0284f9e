package figure

import "github.com/collectivex/collectivex/pkg/result"

// Shapes of a view.
const (
	// Lines has a line over the X of its points for each series.
	Lines = "lines"
	// Grid has a square for each series: rank (row) to rank (column). X is row·world+column.
	Grid = "grid"
)

// View is a chart of the HTML page, and its tables: the series of one kind, what tells
// them apart, and what can be shown of them.
type View struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Note  string `json:"note"`
	Shape string `json:"shape"`
	X     Axis   `json:"x"`
	// Facets tell the series apart, beside the run, SKU, backend and ranks of the case.
	Facets []Facet `json:"facets"`
	// Swap is the title of a facet of numbers that a reader may exchange with X.
	Swap string `json:"swap,omitempty"`
	// Rates are shown beside the latency: the first of them before anything is chosen,
	// unless Latency is set.
	Rates   []Rate `json:"rates"`
	Latency bool   `json:"latency"`
	// Time names the time of a point that is one figure without percentiles or samples, such
	// as that of a model. Empty: a latency, of samples.
	Time string `json:"time,omitempty"`
	// Fits says that start-up latency and bandwidth may be fitted to the times, over an X of
	// bytes.
	Fits bool `json:"hasFits"`
	// Reverse says that the series of a document stand in the reverse order of their first points,
	// so that the last of them are shown before anything is chosen.
	Reverse bool `json:"-"`
}

// Axis is the X of a view. Its scale is logarithmic.
type Axis struct {
	Title string `json:"title"`
	Unit  string `json:"unit,omitempty"` // of a number that is not bytes, such as tokens
	Bytes bool   `json:"bytes"`          // labels have binary prefixes
}

// Facet is something that tells series apart. What is measured in unlike ways, such as
// timing modes, is a facet of which a chart shows one value unless asked for more.
type Facet struct {
	Title  string   `json:"title"`
	Values []string `json:"values"` // in this order; others follow as they are found
	One    bool     `json:"one"`    // unlike values are different measurements
	// Number says that values contain a number, by which they are sorted. A value that is only a
	// number is shown behind the title, as in batch 4.
	Number bool `json:"number"`
}

// Rate is a figure that is work divided by time. A Given one is any other figure that follows
// from medians: it may be 0 or negative, and views that begin with one set Latency.
type Rate struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Unit  string `json:"unit"` // empty for a ratio
	Given bool   `json:"given,omitempty"`
}

// Series is what one document measured in one way, over the rungs of a ladder.
type Series struct {
	View   string   // the View's Name
	Facets []string // a value for each of the View's Facets
	// Basis says what the bytes of the rates count; empty where there is one basis.
	Basis  string
	Points []Point

	bases []string // of its points
}

// Point is one rung.
type Point struct {
	X    int64
	Time result.Percentiles // microseconds
	// Work has a numerator for each of the View's Rates, so that Work/Time is in the
	// rate's unit; 0 where there is no such rate. Of a Given rate it is the figure itself,
	// NaN where there is none.
	Work    []float64
	Samples int
	// Slots is the number of buffers that the operations rotated over; 0 where there is
	// none. Points of unlike slots are not compared.
	Slots int
	// Reason says why the point does not count. It is empty if the row is complete and
	// passed its checks.
	Reason string
}
