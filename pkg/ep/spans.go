package ep

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
)

// Kinds of records that traces show.
const (
	RecordVerdict = "ep-verdict" // at each moment of each rung
	RecordFresh   = "ep-fresh"   // per trial, rung and component
	RecordChain   = "ep-chain"   // per chain trial and rung
)

// spans returns the windows and checks of an EP record.
func spans(_ result.Document, kind string, data json.RawMessage) ([]figure.Span, error) {
	var r struct {
		Tokens    int       `json:"tokens_per_rank"`
		Trial     int       `json:"trial"`
		Repeat    int       `json:"repeat"`
		Component string    `json:"component"`
		Us        []float64 `json:"us"`
		Dispatch  []float64 `json:"dispatch_us"`
		Combine   []float64 `json:"combine_us"`
		Pair      []float64 `json:"pair_us"`
		Starts    []float64 `json:"start_to_start_us"`
		When      string    `json:"when"`
		Passed    bool      `json:"passed"`
		Began     time.Time `json:"began"` // zero in samples of earlier versions
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	tokens := plural.Count(r.Tokens, "token", "tokens") + " per rank"
	args := map[string]any{"tokens_per_rank": r.Tokens, "trial": r.Trial, "repeat": r.Repeat}
	switch kind {
	case RecordFresh:
		return []figure.Span{{Track: r.Component, Name: tokens, Began: r.Began, Us: r.Us, Args: args}}, nil
	case RecordChain:
		n := len(r.Pair)
		if len(r.Dispatch) != n || len(r.Combine) != n || len(r.Starts) < n-1 {
			return nil, fmt.Errorf("a chain has %d pairs, but %d dispatches, %d combines and %d starts", n, len(r.Dispatch), len(r.Combine), len(r.Starts))
		}
		chain := figure.Span{Track: "chain", Began: r.Began, Args: args}
		at := 0.0
		for i := range n {
			chain.Names = append(chain.Names, "pair, "+tokens, "dispatch", "combine")
			chain.Us = append(chain.Us, r.Pair[i], r.Dispatch[i], r.Combine[i])
			chain.Offsets = append(chain.Offsets, at, at, at+max(0, r.Pair[i]-r.Combine[i]))
			if i < n-1 {
				at += r.Starts[i]
			}
		}
		return []figure.Span{chain}, nil
	case RecordVerdict:
		return []figure.Span{{Track: figure.Checks, Name: figure.Verdict(r.Passed) + ": " + r.When + ", " + tokens, Began: r.Began, Args: map[string]any{"passed": r.Passed}}}, nil
	}
	return nil, nil
}
