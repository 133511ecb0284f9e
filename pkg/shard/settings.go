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

// settings returns what the ranks of c found beside the environment of their launcher, and what their devices are
// beside the product of the platform. The variables are those of
// the first rank, since a case whose ranks differ fails; see unlike.
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

// enough is the number of processors that a rank needs: one measures, and one does everything else. With more, times
// do not depend on their number.
const enough = 2

// processors returns how many processors the ranks of a node share, on the node with the fewest, or 0 if no launcher
// left them fewer than enough.
func processors(c plan.Case, streams []rank.Stream) (fewest int) {
	perNode := max(1, c.RanksPerNode)
	for node := range slices.Chunk(streams, perNode) {
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

// unlike returns why ranks that all ran a case cannot have measured one thing, and whether that is so: settings
// files differ between them. The text is private.
func unlike(streams []rank.Stream) (reasons result.Reasons, text string) {
	for i := range streams {
		a, b := streams[0].Settings.Variables, streams[i].Settings.Variables
		if maps.Equal(a, b) {
			continue
		}
		names := maps.Clone(a)
		if names == nil {
			names = map[string]string{}
		}
		maps.Copy(names, b)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if a[name] != b[name] {
				return result.Reasons{result.ReasonEnvironment.With("settings of ranks 0 and %d differ", i)},
					fmt.Sprintf("%s is %q for rank 0 and %q for rank %d: make the settings files equal that their logs name", name, a[name], b[name], i)
			}
		}
	}
	return nil, ""
}
