package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// FuzzRecord puts any record in the place of any one that a rank left: assembling
// and validating never panic, and a record that is none does not make a success.
func FuzzRecord(f *testing.F) {
	f.Add(collective.KindSample, []byte(`{"requested":8,"placement":"out_of_place","mode":"pipelined","us":[1e308,-1,0]}`), 3)
	f.Add(kindSetup, []byte(`{"rungs":[{}],"modes":["pipelined","x"]}`), 0)
	f.Add("x", []byte(`null`), 1)
	f.Fuzz(func(t *testing.T, kind string, data []byte, at int) {
		p := newTape(t, aCase())
		records := p.streams[0].Records
		records[uint(at)%uint(len(records))] = rank.Record{Kind: kind, Data: data}
		d, err := p.document()
		if err != nil {
			return
		}
		_ = result.Validate(d)
		if kind != collective.KindSample && kind != kindSetup {
			require.NotEqual(t, result.Success, d.Outcome.Status)
		}
	})
}
