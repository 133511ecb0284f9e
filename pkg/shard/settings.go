package shard

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/launch"
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

// seen returns the settings of the first rank that reports any. All report the same environment, or their case fails.
func seen(streams []rank.Stream) rank.Settings {
	for _, s := range streams {
		if s.Settings.Environment != nil {
			return s.Settings
		}
	}
	return rank.Settings{}
}

// unplanned returns why a case that all ranks ran does not count: a rank was started without a variable of env, with
// another value, or with a variable that env unsets. It returns nothing if all ranks got what env plans. The text is
// private.
func unplanned(env map[string]string, streams []rank.Stream) (reasons result.Reasons, text string) {
	for _, s := range streams {
		got := s.Settings.Environment
		if got == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(env)) {
			if value, is := got[name]; name != launch.UnsetVariable && (!is || value != env[name]) {
				return result.Reasons{result.ReasonEnvironment.With("rank %d did not get the %s of the plan", s.Rank, name)},
					fmt.Sprintf("%s is %q for rank %d and %q in the plan: look for what changes it between this program and the rank", name, value, s.Rank, env[name])
			}
		}
		for name := range strings.SplitSeq(env[launch.UnsetVariable], ",") {
			if value, is := got[name]; is {
				return result.Reasons{result.ReasonEnvironment.With("rank %d got a %s, which the plan unsets", s.Rank, name)},
					fmt.Sprintf("%s is %q for rank %d, and the plan unsets it: look for what sets it there", name, value, s.Rank)
			}
		}
	}
	return nil, ""
}

// unlike returns why a case that all ranks ran does not count: their settings differ. It returns nothing if they are
// equal. The text is private.
func unlike(streams []rank.Stream) (reasons result.Reasons, text string) {
	for i, s := range streams {
		a, b := all(streams[0].Settings), all(s.Settings)
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

// all returns the variables of a rank, from its environment and from settings files.
func all(s rank.Settings) map[string]string {
	vars := map[string]string{}
	maps.Copy(vars, s.Environment)
	maps.Copy(vars, s.Variables)
	return vars
}
