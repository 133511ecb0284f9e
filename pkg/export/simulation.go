package export

import (
	"strings"

	"github.com/collectivex/collectivex/pkg/figure"

	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// simulationRows have the model as their mode, the topology as their placement and the origin
// as their timing. Their metrics are those of no measurement.
func simulationRows(doc result.Document, head Row) (rows []Row) {
	d := doc.(*result.SimulationDocument)
	s, b := &d.Simulation, d.Identity.Case.Simulation()
	head.OpOrPhase, head.Mode, head.Placement, head.XName = s.Op+"/"+b.Label(), s.Model.Label(), b.Links(), "bytes"
	head.Timing, head.Complete, head.Passed = s.Origin, true, true
	for i := range s.Rows {
		r := &s.Rows[i]
		row := head
		row.X, row.Stat, row.Unit = whole(r.Bytes), vocab.Simulated, figure.Microseconds
		row.Metric, row.Value = "makespan", r.Micros()
		rows = append(rows, row)
		for _, part := range r.Path.Parts() {
			row.Metric, row.Value = "critical_path_"+strings.ReplaceAll(part.Name, " ", "_"), float64(part.Picoseconds)/1e6
			rows = append(rows, row)
		}
		row.Metric, row.Unit, row.Value = "messages", figure.Dimensionless, float64(r.Messages)
		rows = append(rows, row)
	}
	return rows
}
