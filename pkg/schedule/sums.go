package schedule

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// mostSums is the most ranks whose sums are written out.
const mostSums = 64

// trees are sums by their order: the orders of the two that were added. What is not there is the
// data of a rank.
type trees map[uint64][2]uint64

// Sums says, a line for each chunk, in which order the ranks of a correct all_reduce or reduce_scatter
// add: ((0+1)+2) is the data of rank 0 plus that of rank 1, and then that of rank 2. Ranks that add
// alike stand together. Its error is that of ctx, or says that the program adds nothing or has too
// many ranks.
func Sums(ctx context.Context, p *Program) ([]string, error) {
	if p.Collective == AllGather {
		return nil, fmt.Errorf("%s adds nothing", p.Collective)
	}
	if p.Ranks > mostSums {
		return nil, fmt.Errorf("%d ranks: sums are written out for at most %d", p.Ranks, mostSums)
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

// write writes a sum; leaves are the ranks by the orders of their data.
func (t trees) write(order uint64, leaves map[uint64]int) string {
	if of, ok := t[order]; ok {
		return "(" + t.write(of[0], leaves) + "+" + t.write(of[1], leaves) + ")"
	}
	return strconv.Itoa(leaves[order])
}

// contribution is the order of the data of rank r for chunk k, to which nothing has been added.
func contribution(r, k int) uint64 { return mix(uint64(k+1)<<32 | uint64(r+1)) }
