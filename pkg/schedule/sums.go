package schedule

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// maxSums is the maximum number of ranks of a program whose sums are written out.
const maxSums = 64

// trees maps the order of each sum, as in held, to the orders of the two values that were added. An order
// that is not a key identifies the data of one rank.
type trees map[uint64][2]uint64

// Sums returns, one line per chunk, the order in which the ranks of a correct all_reduce or reduce_scatter
// add: ((0+1)+2) adds the data of rank 1 to the data of rank 0, and then the data of rank 2. Ranks
// with the same order share an entry. Sums fails if the program adds nothing or has too many ranks or
// streams, and when ctx ends.
func Sums(ctx context.Context, p *Program) ([]string, error) {
	if RedOp(string(p.Collective)) == "" {
		return nil, fmt.Errorf("%s adds nothing", p.Collective)
	}
	if p.Ranks > maxSums {
		return nil, fmt.Errorf("%d ranks: sums are written out for at most %d", p.Ranks, maxSums)
	}
	v, err := newVerifier(p)
	if err != nil {
		return nil, err
	}
	v.ctx, v.report, v.trees = ctx, &Report{}, trees{}
	v.run()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var lines []string
	for k := range p.Chunks {
		leaves := map[uint64]int{}
		for r := range p.Ranks {
			leaves[contribution(r, k)] = r
		}
		var sums []string // in the order of the ranks that have them first
		ranks := map[string][]string{}
		for r := range v.memory {
			if p.Collective == ReduceScatter && k/(p.Chunks/p.Ranks) != r {
				continue
			}
			sum := v.trees.write(v.memory[r].held[k].order, leaves)
			if ranks[sum] == nil {
				sums = append(sums, sum)
			}
			ranks[sum] = append(ranks[sum], strconv.Itoa(r))
		}
		for i, sum := range sums {
			of := "rank " + strings.Join(ranks[sum], ", ")
			if len(ranks[sum]) == p.Ranks {
				of = "all ranks"
			}
			sums[i] = of + ": " + sum
		}
		lines = append(lines, fmt.Sprintf("chunk %d, %s", k, strings.Join(sums, "; ")))
	}
	return lines, nil
}

// write returns a sum as text. leaves maps the order of each rank's data to the rank.
func (t trees) write(order uint64, leaves map[uint64]int) string {
	if added, ok := t[order]; ok {
		return "(" + t.write(added[0], leaves) + "+" + t.write(added[1], leaves) + ")"
	}
	return strconv.Itoa(leaves[order])
}

// contribution returns the order of the data of rank r for chunk k before any addition.
func contribution(r, k int) uint64 { return mix(uint64(k+1)<<32 | uint64(r+1)) }
