package bench

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/measure"
)

// nccl-tests' variables that split the ranks into groups, which run the operation at once. The first one wins.
const (
	splitMask = "NCCL_TESTS_SPLIT_MASK"
	split     = "NCCL_TESTS_SPLIT"
)

// colours maps the operators of NCCL_TESTS_SPLIT to functions that return the group of a rank.
var colours = map[string]func(rank, n int) int{
	"AND": func(rank, n int) int { return rank & n },
	"OR":  func(rank, n int) int { return rank | n },
	"MOD": func(rank, n int) int { return rank % n },
	"DIV": func(rank, n int) int { return rank / n },
}

// groupsOf returns the groups that nccl-tests' variables ask for among world ranks; nil for one group of all.
func groupsOf(world int) ([][]int, error) {
	variable, operator, number := splitMask, "AND", os.Getenv(splitMask)
	base := 16
	if number == "" {
		if variable, number = split, strings.TrimSpace(os.Getenv(split)); number == "" {
			return nil, nil
		}
		operator, base = "", 0
		for name, sign := range map[string]string{"AND": "&", "OR": "|", "MOD": "%", "DIV": "/"} {
			for _, word := range []string{name, sign} {
				if len(number) > len(word) && strings.EqualFold(number[:len(word)], word) {
					operator, number = name, strings.TrimSpace(number[len(word):])
				}
			}
		}
	}
	text := strings.ToLower(number)
	if base == 16 {
		text = strings.TrimPrefix(text, "0x")
	}
	n, err := strconv.ParseUint(text, base, 31)
	if err != nil || operator == "" || n == 0 && (operator == "MOD" || operator == "DIV") {
		return nil, cli.UsageError("%s=%s: want AND, OR, MOD or DIV (or &, |, %%, /) and a number, such as MOD2; of %s a hexadecimal mask", variable, os.Getenv(variable), splitMask)
	}
	byColour := map[int][]int{}
	for rank := range world {
		colour := colours[operator](rank, int(n))
		byColour[colour] = append(byColour[colour], rank)
	}
	if len(byColour) == 1 {
		return nil, nil
	}
	var groups [][]int
	for _, colour := range slices.Sorted(maps.Keys(byColour)) {
		groups = append(groups, byColour[colour])
	}
	return groups, nil
}

// inGroups adds the groups of world ranks to the request.
func (r *Request) inGroups(world int) (err error) {
	if r.Shape.Groups, err = groupsOf(world); err != nil || r.Shape.Groups == nil {
		return err
	}
	if r.By != nil {
		return cli.UsageError("%s: not supported for a schedule: unset it", split)
	}
	if why := collective.WrongGroups(&r.Shape, world); why != "" {
		return cli.UsageError("%s: %s: choose another split, or unset it", split, why)
	}
	return nil
}

// slowPart is the part of the median busbw of the groups of a size below which one is slow.
const slowPart = 0.9

// slow returns by how many per cent the busbw of a row is below the median of the groups of its size and placement,
// and whether it is slow.
func (v View) slow(rows []collective.Row, row *collective.Row) (percent float64, is bool) {
	var all []float64
	for i := range rows {
		if o := &rows[i]; o.Requested == row.Requested && o.Placement == row.Placement {
			if f, timed := v.Figures(o); timed {
				all = append(all, f.BusBW)
			}
		}
	}
	f, timed := v.Figures(row)
	if !timed || len(all) < 2 || row.Group == nil {
		return 0, false
	}
	median := measure.MiddleMean(all)
	if !(median > 0) {
		return 0, false
	}
	return 100 * (1 - f.BusBW/median), f.BusBW < slowPart*median
}

// slowest returns a line for each group of a document that is slow at some size, with the size where it is slowest.
func (v View) slowest(d *collective.Document) (lines []string) {
	type found struct {
		percent float64
		line    string
	}
	worst := map[string]found{}
	var names []string
	for i := range d.Measurement.Rows {
		row := &d.Measurement.Rows[i]
		percent, is := v.slow(d.Measurement.Rows, row)
		if !is {
			continue
		}
		name := members(row)
		if _, known := worst[name]; !known {
			names = append(names, name)
		}
		if percent > worst[name].percent {
			f, _ := v.Figures(row)
			worst[name] = found{percent, fmt.Sprintf("%s: %s: %.3g GB/s with %d bytes %s, %.0f %% below the median", where(d), name, f.BusBW, row.Requested, row.Placement, percent)}
		}
	}
	for _, name := range names {
		lines = append(lines, worst[name].line)
	}
	return lines
}

// members names the ranks of a row that is not for all ranks.
func members(row *collective.Row) string {
	if row.Src != nil && row.Dst != nil {
		return fmt.Sprintf("rank %d to %d", *row.Src, *row.Dst)
	}
	return "ranks " + listed(row.Group)
}

// listed writes ranks with commas.
func listed(ranks []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ranks), " ", ","), "[]")
}
