package simulation

import "github.com/collectivex/collectivex/pkg/result"

// Document answers a simulation case. Nothing in it was measured: no ranks ran, no element was computed, and its times are computed
// from a model.
type Document struct {
	result.Envelope
	Simulation Prediction `json:"simulation"`
}

// Prediction takes the place of a measurement in the document of a simulation case.
type Prediction struct {
	Origin    string        `json:"origin" in:"simulated origin"` // simulated
	Op        string        `json:"op"`
	Algorithm string        `json:"algorithm"` // the name of the schedule
	Topology  string        `json:"topology"`
	Model     ModelIdentity `json:"model"`
	// Verification is how the program was verified before the simulation: symbolic means that its data were followed through its steps.
	// It is missing before that.
	Verification string `json:"verification,omitempty" in:"verification"`
	// Program is the simulated program; null before it was verified.
	Program *result.Program `json:"program"`
	Rows    []Row           `json:"rows"`
}

// ModelIdentity identifies the model of a time. The case has the whole model.
type ModelIdentity struct {
	Name   string `json:"name"`
	Source string `json:"source,omitempty"` // origin of its figures
	// SHA256 is the hexadecimal digest of its figures: the model of the case as compact JSON without name and source.
	SHA256 string `json:"sha256"`
}

// Row is one size. Times are picoseconds of the model.
type Row struct {
	Bytes    int64 `json:"bytes"`       // of the whole vector
	Makespan int64 `json:"makespan_ps"` // from the common start of all ranks to the end of the last rank
	Messages int   `json:"messages"`    // of all ranks
	// Path is the chain of ops that determines the makespan, split into the components of its time, whose sum is the makespan.
	Path CriticalPath `json:"critical_path"`
}

// CriticalPath is the components of a makespan, in picoseconds.
type CriticalPath struct {
	Ops        int   `json:"ops"`
	Start      int64 `json:"start_ps"`            // from the common start to the first ops
	Issue      int64 `json:"issue_ps,omitempty"`  // issuing ops
	Overhead   int64 `json:"overhead_ps"`         // of senders and receivers
	Memory     int64 `json:"memory_ps,omitempty"` // reading and writing the memory of ranks
	Latency    int64 `json:"latency_ps"`          // of links
	Bytes      int64 `json:"bytes_ps"`            // data on links at their full rate; with measured times, whole messages
	Reduce     int64 `json:"reduce_ps"`
	EngineWait int64 `json:"engine_wait_ps"` // for an engine of the sender
	LinkWait   int64 `json:"link_wait_ps"`   // for links that carry other messages; with measured times, the time by which other messages slow a message down
}

// Part is a named component of a makespan.
type Part struct {
	Name        string
	Picoseconds int64
}

// Parts lists the parts, in the order of their fields.
func (p *CriticalPath) Parts() []Part {
	return []Part{
		{"start", p.Start},
		{"issue", p.Issue},
		{"overhead", p.Overhead},
		{"memory", p.Memory},
		{"latency", p.Latency},
		{"bytes", p.Bytes},
		{"reduce", p.Reduce},
		{"engine wait", p.EngineWait},
		{"link wait", p.LinkWait},
	}
}

// Micros returns the makespan in microseconds.
func (r *Row) Micros() float64 { return float64(r.Makespan) / 1e6 }

// Label returns the name of the model and the beginning of its digest, which distinguishes models with one name.
func (m *ModelIdentity) Label() string { return m.Name + "@" + m.SHA256[:min(8, len(m.SHA256))] }
