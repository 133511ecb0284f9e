package shard

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// settings returns, as variables, the settings that the ranks of c found in addition to the environment of their
// launcher, the variant of their devices, and the number of processors if it is too small. The settings come from the
// first rank, since a case fails if its ranks differ; see unlike.
func settings(c plan.Case, streams []rank.Stream) map[string]string {
	found := map[string]string{}
	if len(streams) > 0 {
		maps.Copy(found, streams[0].Settings.Variables)
	}
	for _, s := range streams {
		if s.Facts != nil && s.Facts.DeviceVariant != "" {
			found[provenance.DeviceVariable] = s.Facts.DeviceVariant
		}
	}
	if n := processors(c, streams); n > 0 {
		found[provenance.ProcessorsVariable] = strconv.Itoa(n)
	}
	return found
}

// enough is the number of processors that a rank needs: one to measure, and one for everything else. Additional
// processors do not change its times.
const enough = 2

// processors returns how many processors the ranks of a node share, on the node with the fewest. It returns 0 if the
// ranks of every node have enough.
func processors(c plan.Case, streams []rank.Stream) (fewest int) {
	for node := range slices.Chunk(streams, max(1, c.RanksPerNode)) {
		shared := map[int]bool{}
		for _, s := range node {
			for _, cpu := range s.Settings.Processors {
				shared[cpu] = true
			}
		}
		free := slices.ContainsFunc(node, func(s rank.Stream) bool { return s.Settings.Processors == nil })
		if n := len(shared); !free && n < enough*len(node) && (fewest == 0 || n < fewest) {
			fewest = n
		}
	}
	return fewest
}

// unlike returns why a case that all ranks ran does not count: their settings differ. It returns nothing if they are
// equal. The text is private.
func unlike(streams []rank.Stream) (reasons result.Reasons, text string) {
	for i, s := range streams {
		a, b := streams[0].Settings.Variables, s.Settings.Variables
		names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
		slices.Sort(names)
		for _, name := range names {
			if a[name] != b[name] {
				return result.Reasons{result.ReasonEnvironment.With("settings of ranks 0 and %d differ", i)},
					fmt.Sprintf("%s is %q for rank 0 and %q for rank %d: give both ranks the same settings; their logs name the settings files", name, a[name], b[name], i)
			}
		}
	}
	return nil, ""
}
