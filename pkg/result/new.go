package result

import (
	"fmt"
	"time"

	"github.com/collectivex/collectivex/pkg/plan"
)

// Attempt is what a document says of the run it belongs to. Empty strings
// become null.
type Attempt struct {
	RunID      string
	RunAttempt string
	SourceSHA  string
	// MatrixSHA256 is the digest of the matrix file that asked for the case.
	MatrixSHA256 string
	Ordinal      int // attempt of this case within the run attempt, from 1
	At           time.Time
	Vendor       string // of the platform: also a case that never started has one
	Generator    string // program and version
	Image        string
	// Environment is what of the ranks' environment may be published.
	Environment map[string]string
	Host        map[string]string
}

// New returns the document of one attempt of c: everything that is known
// before the case runs, no rows, and the status failed without a reason, which
// Validate refuses until the outcome is set. It is an *EPDocument or a
// *CollectiveDocument, by the family of c.
func New(c plan.Case, a Attempt) (Document, error) {
	key, err := ComparisonKey(c, a.Environment)
	if err != nil {
		return nil, err
	}
	head := Envelope{
		Version:       Version,
		RecordType:    RecordType(c),
		GeneratedAt:   a.At.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		ComparisonKey: key,
		Identity: Identity{
			CaseID:         c.CaseID,
			AttemptOrdinal: a.Ordinal,
			Repeat:         c.Repeat,
			AllocationFactors: AllocationFactors{
				RunID: orNull(a.RunID), RunAttempt: orNull(a.RunAttempt), SourceSHA: orNull(a.SourceSHA),
				MatrixSHA256: a.MatrixSHA256,
			},
			Case: c,
		},
		Implementation: Implementation{Name: c.Backend},
		Topology: Topology{
			GPUsPerNode: c.GPUsPerNode, Nodes: c.Nodes, Placement: "packed",
			ScaleUpDomain: c.ScaleUpDomain, ScaleUpTransport: c.ScaleUpTransport,
			ScaleOutTransport: c.ScaleOutTransport, Scope: c.Scope,
			TopologyClass: c.TopologyClass, Transport: c.Transport, WorldSize: c.World,
		},
		Runtime: Runtime{Vendor: a.Vendor},
		Provenance: Provenance{
			Image: orNull(a.Image), SourceSHA: orNull(a.SourceSHA), Generator: a.Generator,
			Host: a.Host, Environment: a.Environment,
		},
		Outcome: Outcome{Status: Failed, Reasons: []string{}},
	}
	if a.Vendor == "host" { // whose processes share no GPUs and no domain of them
		head.Topology.GPUsPerNode, head.Topology.ScaleUpDomain = 0, 0
	}
	switch c.Family {
	case plan.FamilyEP:
		d := &EPDocument{Envelope: head}
		d.Measurement = EPMeasurement{
			CombineDType: "bf16", CombineSemantics: "activation-only", PayloadUnit: "token-rank",
			Rows: []EPRow{}, Sampling: epSampling(c),
		}
		d.SetLadder(nil, nil, nil)
		return d, nil
	case plan.FamilyCollective:
		head.Identity.CaseFactors = CaseFactors{SKU: c.SKU, Case: c}
		return &CollectiveDocument{
			Envelope: head,
			Workload: CollectiveWorkload{SizesMeasured: []int64{}, SizesDropped: []DroppedSize{}, Excluded: []Exclusion{}},
			Measurement: CollectiveMeasurement{
				Op: c.Op, DType: c.Precision, RedOp: c.RedOp, Root: c.Root,
				Buffers: c.Buffers, Registration: c.Registration, Rows: []CollectiveRow{},
				Warmup: c.Measure.Warmup, Iterations: c.Measure.Iterations, Trials: c.Measure.Trials,
				SamplingProfile: c.Sampling,
			},
		}, nil
	default:
		return nil, fmt.Errorf("case %s: no document for family %q", c.CaseID, c.Family)
	}
}

// SetLadder records which rungs were measured, which were dropped above limit
// (null if there is none), and brings the case factors in line. Without a
// measured rung the factors keep the ladder that was asked for.
func (d *EPDocument) SetLadder(measured, dropped []int, limit *int) {
	d.Workload.LadderMeasured = append([]int{}, measured...)
	d.Workload.LadderDropped = append([]int{}, dropped...)
	d.Workload.LadderCap = limit
	d.Identity.CaseFactors = CaseFactors{SKU: d.Identity.Case.SKU, Case: EPFactorsOf(d.Identity.Case, measured)}
}

func epSampling(c plan.Case) EPSampling {
	t := c.Timing
	return EPSampling{
		Profile:                 c.Sampling,
		IterationsPerTrial:      t.ItersPerTrial,
		Trials:                  t.TrialsPerPoint,
		SamplesPerComponent:     t.ItersPerTrial * t.TrialsPerPoint,
		WarmupIterations:        t.WarmupItersPerTrial,
		ChainIterationsPerTrial: t.ChainItersPerTrial,
		ChainTrials:             t.ChainTrialsPerPoint,
		ChainDrop:               t.ChainDrop,
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
