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

// Head is what the JSON of every measurement begins with, and how its cases ended.
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

	verdict verdict
}

// NewHead returns the head of a measurement by program, called with arguments.
func NewHead(program string, arguments []string, started time.Time, backend string, world int) Head {
	return Head{Version: Version, Program: program, Arguments: arguments, StartedAt: started.UTC(), Backend: backend, World: world}
}

// Err is how the program ends: nil, or what went wrong, with its exit code.
func (h *Head) Err() error { return h.verdict.err() }

// Broken returns nothing: most measurements have no thresholds; see Reporter.
func (*Head) Broken() []string { return nil }

// Explain adds nothing to an error; see Reporter.
func (h *Head) Explain(err error) error { return err }

// Missed says how many thresholds were broken.
func (h *Head) Missed(thresholds int) { h.verdict.broken = thresholds }

// Lenient says that what the library lacks was not asked for by name.
func (h *Head) Lenient(is bool) { h.verdict.lenient = is }

// Nothing reports whether no case can be measured here.
func (h *Head) Nothing() bool { return h.verdict.lacking == h.verdict.cases }

// Take takes in the envelope of a case.
func (h *Head) Take(d *result.Envelope) {
	if h.Device == nil && d.Topology.DeviceProduct != "" {
		h.Device, h.Library = &d.Topology.DeviceProduct, d.Runtime.CollectiveLibrary
	}
	h.verdict.add(d.Outcome)
}

// Case is what the JSON says first of a case.
type Case struct {
	CaseID        string            `json:"case_id"`
	ComparisonKey string            `json:"comparison_key"`
	Environment   map[string]string `json:"environment"` // of the ranks; never null
}

// CaseOf returns what it says of the case of a document.
func CaseOf(d *result.Envelope) Case { return Case{d.Identity.CaseID, d.ComparisonKey, Environment(d)} }

// Environment is what a document says of the ranks' environment; never null.
func Environment(d *result.Envelope) map[string]string {
	if d.Provenance.Environment == nil {
		return map[string]string{}
	}
	return d.Provenance.Environment
}

// Ended prints how a case ended that is no success.
func Ended(w io.Writer, o result.Outcome) {
	if o.Status != result.Success {
		fmt.Fprintf(w, "# %s: %s\n", strings.ToUpper(o.Status), sanitize.Line(o.Reasons.String()))
	}
}
