package bench

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
)

// Version is the version of the JSON.
const Version = 1

// Head begins the JSON of every measurement, and records how its cases ended.
type Head struct {
	Version   int       `json:"version"`
	Program   string    `json:"program"`
	Arguments []string  `json:"arguments"`
	StartedAt time.Time `json:"started_at"`
	Op        string    `json:"op"`
	Backend   string    `json:"backend"`
	// Library and Device are null if no rank got far enough to report them. Library is
	// also null on hosts.
	Library *result.CollectiveLibrary `json:"library"`
	Device  *string                   `json:"device_product"`
	World   int                       `json:"world"`
	// Regressions describes the sizes that are slower than in --baseline, or missing there, one line each.
	Regressions []string `json:"regressions,omitempty"`

	verdict verdict
}

// NewHead returns the head of a measurement by program, called with arguments.
func NewHead(program string, arguments []string, started time.Time, backend string, world int) Head {
	return Head{Version: Version, Program: program, Arguments: arguments, StartedAt: started.UTC(), Backend: backend, World: world}
}

// Err returns nil, or the error with which the program ends, with its exit code.
func (h *Head) Err() error { return h.verdict.err(len(h.Regressions)) }

// Broken returns nothing: most measurements have no thresholds; see Reporter.
func (*Head) Broken() []string { return nil }

// Explain adds nothing to an error; see Reporter.
func (h *Head) Explain(err error) error { return err }

// Missed sets the number of violated thresholds.
func (h *Head) Missed(thresholds int) { h.verdict.broken = thresholds }

// Unrepeatable adds a number of results that differ from the first one on the same input.
func (h *Head) Unrepeatable(results int) { h.verdict.unrepeatable += results }

// Regressed adds lines to Regressions.
func (h *Head) Regressed(lines []string) { h.Regressions = append(h.Regressions, lines...) }

// Lenient sets whether cases that the library does not support are tolerated, since the user did not
// name them.
func (h *Head) Lenient(is bool) { h.verdict.lenient = is }

// Nothing reports whether no case can be measured here.
func (h *Head) Nothing() bool { return h.verdict.lacking == h.verdict.cases }

// Take adds the device, library and outcome of a case.
func (h *Head) Take(d *result.Envelope) {
	if h.Device == nil && d.Topology.DeviceProduct != "" {
		h.Device, h.Library = &d.Topology.DeviceProduct, d.Runtime.CollectiveLibrary
	}
	h.verdict.add(d.Outcome)
}

// Case begins the JSON of a case.
type Case struct {
	CaseID        string            `json:"case_id"`
	ComparisonKey string            `json:"comparison_key"`
	Environment   map[string]string `json:"environment"` // of the ranks; never null
}

// CaseOf returns the Case of a document.
func CaseOf(d *result.Envelope) Case { return Case{d.Identity.CaseID, d.ComparisonKey, Environment(d)} }

// Environment returns the ranks' environment according to a document; never nil.
func Environment(d *result.Envelope) map[string]string {
	if d.Provenance.Environment == nil {
		return map[string]string{}
	}
	return d.Provenance.Environment
}

// Ended prints the status of a case that did not succeed, and the reasons.
func Ended(w io.Writer, o result.Outcome) {
	if o.Status != result.Success {
		fmt.Fprintf(w, "# %s: %s\n", strings.ToUpper(o.Status), sanitize.Line(o.Reasons.String()))
	}
}
