package runner

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/steps"
)

// Assemble fills the document of a schedule case from the records of its ranks; see shard.Assembler. It fills in the program,
// and the rows of the collective family.
func Assemble(doc result.Document, streams []rank.Stream) error {
	d, ok := doc.(*steps.Document)
	if !ok {
		return fmt.Errorf("document of type %T for a schedule case", doc)
	}
	measured := slices.Clone(streams)
	for i, s := range streams {
		at := slices.IndexFunc(s.Records, func(r rank.Record) bool { return r.Kind == kindProgram })
		if at < 0 {
			continue
		}
		var p result.Program
		if err := json.Unmarshal(s.Records[at].Data, &p); err != nil {
			return fmt.Errorf("rank %d: record %d: %w", s.Rank, at+1, err)
		}
		if known := d.Measurement.Program; known != nil && *known != p {
			return fmt.Errorf("rank %d ran a different program than earlier ranks", s.Rank)
		}
		d.Measurement.Program = &p
		measured[i].Records = slices.Delete(slices.Clone(s.Records), at, at+1)
	}
	rows := d.Collective()
	if err := runner.Assemble(rows, measured); err != nil {
		return err
	}
	d.SetCollective(rows)
	return nil
}
