package runner

import (
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plausible"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// maxCache exceeds the total last-level caches, in bytes, of all supported devices: 50 MiB on H200,
// 126 MB on B200, 256 MB and 32 MiB on MI300X.
const maxCache = 512 << 20

// gate fails a row with physically impossible times. It judges the median, from which bandwidths are
// computed. Single samples can be shorter, since the peers of a rank that starts late may have sent
// already. Hosts have no limits.
func (s spec) gate(row *collective.Row, r rungRecord, limits []result.Limit) {
	if len(limits) == 0 {
		return
	}
	moved := s.moved(r)
	for _, mode := range s.block.Modes {
		t := *row.Timing(mode)
		if t == nil {
			continue
		}
		if why := plausible.Judge(limits, moved, mode, t.Percentiles.P50); len(why) > 0 {
			row.Check.Passed = false
			row.Check.Reasons = append(row.Check.Reasons, why...)
		}
	}
}

// moved returns the minimum numbers of bytes that an operation of the rung moves.
func (s spec) moved(r rungRecord) plausible.Moved {
	f, size := s.form(r.Pair), int64(s.dtype.Size())
	e, inPlace := f.Extent(r.Requested), r.Placement == vocab.InPlace
	ranks := f.moves(e, inPlace, eachRank)
	domains := f.moves(e, inPlace, func(rank int) int {
		if len(s.block.Groups) > 0 {
			return 0 // the bounds of networks are for all ranks together
		}
		return plausible.Domain(s.Case, rank)
	})
	// Operations rotate over the slots. In each rotation a cache saves at most one read and one write
	// of its size. Half of the slots allows for operations that use some slots more often.
	cached := 2 * maxCache / int64(max(1, r.Slots/2))
	return plausible.Moved{
		Link:    f.LinkBytes(e),
		Network: size * max(domains.Off, domains.Onto),
		Memory:  max(0, size*ranks.Memory-cached),
	}
}

// eachRank assigns each rank to a group of its own.
func eachRank(rank int) int { return rank }

// LinkBytes returns the minimum number of bytes that any algorithm moves in one direction over the
// links of the busiest rank.
func (f Form) LinkBytes(e Extent) int64 {
	m := f.moves(e, true, eachRank)
	return int64(f.Type.Size()) * max(m.Off, m.Onto)
}

// impossible returns the first time that is not positive, or nil if there is none.
func impossible(perRank [][]float64) *float64 {
	for _, samples := range perRank {
		for i := range samples {
			if !(samples[i] > 0) {
				return &samples[i]
			}
		}
	}
	return nil
}
