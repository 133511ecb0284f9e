package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// FuzzRecord puts any record in the place of any one that a rank left: assembling
// and validating never panic, and a record of no kind is refused.
func FuzzRecord(f *testing.F) {
	f.Add(kindPlan, []byte(`{"measured":[1,-2,1000000000]}`), 0)
	f.Add(kindVerdict, []byte(`{"tokens_per_rank":1,"passed":true}`), 2)
	f.Add(kindFresh, []byte(`{"component":"dispatch","us":[1e308,-1]}`), 5)
	f.Add(kindChain, []byte(`{}`), 9)
	f.Fuzz(func(t *testing.T, kind string, data []byte, at int) {
		c := assembledCase()
		streams := left(t, c, plain, nil)
		records := streams[0].Records
		records[uint(at)%uint(len(records))] = rank.Record{Kind: kind, Data: data}
		d := resulttest.New(c, result.Attempt{Ordinal: 1, At: time.Unix(0, 0), Vendor: "host", Generator: "test"})
		err := Assemble(d, streams)
		_ = result.Validate(d)
		switch kind {
		case kindPlan, kindPoint, kindVerdict, kindFresh, kindChain:
		default:
			require.Error(t, err)
		}
	})
}

// Ranks that agree on a rung that nobody asked for do not make the shard compute
// its trace, which may take hours and all memory.
func TestRungsThatWereNotAskedForAreRefused(t *testing.T) {
	c := assembledCase()
	streams := left(t, c, plain, nil)
	for r := range streams {
		streams[r].Records[0].Data = []byte(`{"measured":[1,2,100000000]}`)
	}
	d := resulttest.New(c, result.Attempt{Ordinal: 1, At: time.Unix(0, 0), Vendor: "host", Generator: "test"})
	require.ErrorContains(t, Assemble(d, streams), `rung 100000000 is not in the ladder "1 2"`)
}
