package collective

// KindSample is the kind of records of windows; each has the fields of a Sample.
const KindSample = "collective-sample"

// Pair is two ranks; the zero value is none.
type Pair struct {
	Src int `json:"src"`
	Dst int `json:"dst"`
}

// Window names one window; all ranks have the same ones in the same order. The
// untimed one follows the last trial and has the number of trials for its own.
type Window struct {
	Requested int64  `json:"requested"`
	Placement string `json:"placement"`
	Pair      Pair   `json:"pair,omitzero"`
	Mode      string `json:"mode"`
	Trial     int    `json:"trial"`
}

// Sample is what one rank saw in one window.
type Sample struct {
	Window
	// US is microseconds per operation: one for every iteration (blocking,
	// per_iteration), else one for the window; none of an idle rank.
	US []float64 `json:"us"`
	// Enqueue is microseconds of the window until its last operation was enqueued,
	// divided by its operations; 0 where the window waits in between.
	Enqueue float64 `json:"enqueue_us,omitempty"`
}
