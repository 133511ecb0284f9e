package overlap

import (
	"fmt"
	"math"

	"github.com/collectivex/collectivex/pkg/result"
)

// Document answers an overlap case.
type Document struct {
	result.Envelope
	Measurement Measurement `json:"measurement"`
}

// Measurement is the measured part of an overlap document.
type Measurement struct {
	Form string `json:"form" in:"overlap form"`
	// Compute names what computed the products. It is auto only if the case requests that and no rank got so far.
	// provenance.libraries has the version of a library.
	Compute string `json:"compute" in:"compute"`
	// CommunicationPath is the path of the data: an entry point of the library, or its substitute. It is empty if no rank
	// got so far.
	CommunicationPath string `json:"communication_path"`
	// Program describes the communication steps, which every rank verified before: of the schedule of form beside, or of the
	// all_gather rotation in form linear-rotation. It is missing if operations of a library communicate, and in documents
	// of earlier versions.
	Program *result.Program `json:"program,omitempty"`
	// CheckedBy is where results were compared: device, or host.
	CheckedBy string `json:"checked_by"`
	// SharedProcessor: computation and communication of a rank take turns on one processor, as on a host with fewer than
	// two processors per rank; they can overlap little there.
	SharedProcessor bool         `json:"shared_processor,omitempty"`
	Sampling        SampleCounts `json:"sampling"`
	Rows            []Row        `json:"rows"`
}

// SampleCounts holds the sample counts that the case requests.
type SampleCounts struct {
	Warmup     int `json:"warmup"`
	Iterations int `json:"iterations"`
}

// Row is one size. Times are microseconds from the gate that all streams wait for, by the clock of the device or, on a host,
// of the processor; samples are the maximum over ranks in each iteration.
type Row struct {
	Bytes int64 `json:"bytes"` // of the communication, as nccl-tests counts them
	// ProductM, ProductN and ProductK are the shape of a product of form beside, and of the whole product of a linear layer:
	// C [m, n] = A [m, k] times the transpose of B [n, k].
	ProductM int64 `json:"product_m"`
	ProductN int64 `json:"product_n"`
	ProductK int64 `json:"product_k"`
	// Products and Communications are the number of each in a window.
	Products       int `json:"products"`
	Communications int `json:"communications"`
	// Compute and Communication are each side alone, Together both at once, and Serial the communication followed by the
	// computation.
	Compute       result.Burst `json:"compute_us"`
	Communication result.Burst `json:"communication_us"`
	Together      result.Burst `json:"together_us"`
	Serial        result.Burst `json:"serial_us"`
	// WholeCompute and WholeCommunication are the sides of a linear layer in one piece.
	WholeCompute       *result.Burst `json:"whole_compute_us,omitempty"`
	WholeCommunication *result.Burst `json:"whole_communication_us,omitempty"`
	// ComputeInside and CommunicationInside are from the gate to the end of each side while both ran.
	ComputeInside       result.Burst `json:"compute_inside_us"`
	CommunicationInside result.Burst `json:"communication_inside_us"`
	// ComputeCoverage is the fraction of compute_inside in which the communication was active, and CommunicationCoverage the
	// reverse: the median over iterations of the minimum over ranks.
	ComputeCoverage       float64 `json:"compute_coverage"`
	CommunicationCoverage float64 `json:"communication_coverage"`
	Figures
	Complete bool   `json:"complete"` // false: the case ended before all samples were taken
	Verify   Verify `json:"verify"`
}

// Figures are derived from the medians of a row.
type Figures struct {
	// Exposed is together − compute: the cost of the communication.
	Exposed float64 `json:"exposed_us" sign:"any"`
	// Efficiency is (compute + communication − together) / min(compute, communication): 1 if
	// the shorter side is hidden entirely, below 0 if together is slower than one after the
	// other. It is missing where min(compute, communication) is not above the noise of the three
	// medians: the sum of (p95 − p50) / √n over compute, communication and together.
	Efficiency *float64 `json:"efficiency,omitempty" sign:"any"`
	// ComputeSlowdown is compute_inside / compute, if the coverage of the computation is at
	// least 0.95; CommunicationSlowdown likewise.
	ComputeSlowdown       *float64 `json:"compute_slowdown,omitempty"`
	CommunicationSlowdown *float64 `json:"communication_slowdown,omitempty"`
	// ComputeTax is compute / whole_compute: what a linear layer pays for its pieces.
	// CommunicationTax likewise.
	ComputeTax       *float64 `json:"compute_tax,omitempty"`
	CommunicationTax *float64 `json:"communication_tax,omitempty"`
	// Floor is the minimum possible together. For form beside it is the longer side. For a linear layer with d ranks it is
	// max(d·g, (d−1)·c + g), with g for one piece of the product and c for one piece of the communication, both alone.
	Floor float64 `json:"floor_us"`
}

// Verify is the verdict on the results of the timed windows: each element of the products, and each that the communication
// delivered.
type Verify struct {
	Passed bool `json:"passed"`
	// Detail describes in one line what was checked, or the first error.
	Detail string `json:"detail"`
	Checks int    `json:"checks"` // of one side after a window
	// Products and Communicated count the elements that were compared, and those that were wrong.
	Products          int64 `json:"product_elements"`
	Communicated      int64 `json:"communicated_elements"`
	WrongProducts     int64 `json:"wrong_product_elements"`
	WrongCommunicated int64 `json:"wrong_communicated_elements"`
}

// Good reports whether the row is complete and passed its checks.
func (r *Row) Good() bool { return r.Complete && r.Verify.Passed }

// Name describes the row, such as 1048576 bytes.
func (r *Row) Name() string { return fmt.Sprintf("%d bytes", r.Bytes) }

// Derive returns the figures derived from the medians of the row, for a form on a world of ranks.
func (r *Row) Derive(form string, world int) Figures {
	c, m := r.Compute.P50, r.Communication.P50
	f := Figures{Exposed: r.Together.P50 - c, Floor: max(c, m)}
	if min(c, m) > noise(&r.Compute, &r.Communication, &r.Together) {
		f.Efficiency = r.efficiency()
	}
	if r.ComputeCoverage >= result.MinCoverage {
		f.ComputeSlowdown = result.Ratio(r.ComputeInside.P50, c)
	}
	if r.CommunicationCoverage >= result.MinCoverage {
		f.CommunicationSlowdown = result.Ratio(r.CommunicationInside.P50, m)
	}
	if form != Beside {
		f.Floor = max(c, float64(world-1)*m/float64(r.Communications)+c/float64(r.Products))
	}
	if r.WholeCompute != nil && r.WholeCommunication != nil {
		f.ComputeTax, f.CommunicationTax = result.Ratio(c, r.WholeCompute.P50), result.Ratio(m, r.WholeCommunication.P50)
	}
	return f
}

// ExposedBeyondNoise returns the exposed time for display. It is nil if the time, positive or negative, is below the noise of
// the medians of compute and together: the sum of (p95 − p50) / √n over both.
func (r *Row) ExposedBeyondNoise() *float64 {
	if math.Abs(r.Exposed) < noise(&r.Compute, &r.Together) {
		return nil
	}
	return &r.Exposed
}

// noise estimates the error of a sum or difference of medians, in microseconds.
func noise(of ...*result.Burst) (sum float64) {
	for _, b := range of {
		sum += (b.P95 - b.P50) / math.Sqrt(float64(max(1, b.N)))
	}
	return sum
}

// efficiency returns the efficiency from the medians, regardless of their noise.
func (r *Row) efficiency() *float64 {
	c, m := r.Compute.P50, r.Communication.P50
	return result.Ratio(c+m-r.Together.P50, min(c, m))
}

// Times returns the times of the row's contenders; see Contenders.
func (r *Row) Times() map[string]*result.Burst {
	times := map[string]*result.Burst{
		OnlyCompute: &r.Compute, OnlyCommunication: &r.Communication, Together: &r.Together, Serial: &r.Serial,
	}
	if r.WholeCompute != nil && r.WholeCommunication != nil {
		times[WholeCompute], times[WholeCommunication] = r.WholeCompute, r.WholeCommunication
	}
	return times
}
