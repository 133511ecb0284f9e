package result

import (
	"time"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Attempt is a document's description of the run it belongs to. Empty strings become null.
type Attempt struct {
	RunID      string
	RunAttempt string
	SourceSHA  string
	// MatrixSHA256 is the digest of the matrix file that requested the case.
	MatrixSHA256 string
	Ordinal      int // attempt of this case within the run attempt, from 1
	At           time.Time
	Vendor       string // of the platform: known even if a case never started
	Generator    string // program and version
	Image        string
	ImageDigest  string
	// Environment is the publishable part of the ranks' environment.
	Environment map[string]string
	Host        map[string]string
}

// New returns the document of one attempt of c: everything known before the case runs, no rows, and the
// status failed without a reason, which Validate refuses until the outcome is set.
func New(c plan.Case, a Attempt) (Document, error) {
	family, err := familyOf(&c)
	if err != nil {
		return nil, err
	}
	key, err := ComparisonKey(c, a.Environment)
	if err != nil {
		return nil, err
	}
	head := Envelope{
		Version:       Version,
		RecordType:    family.recordType(&c),
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
			CaseFactors: CaseFactors{SKU: c.SKU, Case: c},
			Case:        c,
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
			Image: orNull(a.Image), ImageDigest: a.ImageDigest, SourceSHA: orNull(a.SourceSHA), Generator: a.Generator,
			Host: a.Host, Environment: a.Environment,
		},
		Outcome: Outcome{Status: Failed, Reasons: Reasons{}},
	}
	if a.Vendor == vocab.Host { // hosts have no GPUs and no scale-up domain
		head.Topology.GPUsPerNode, head.Topology.ScaleUpDomain = 0, 0
	}
	return family.New(head), nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
