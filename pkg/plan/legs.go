package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// GitHub runs at most 256 jobs of one matrix, so the workflow has several sweep
// jobs, one for each wave of cells.
const (
	WaveCells = 256
	Waves     = 4
)

// Leg is a cell in the workflow's matrix: what a job needs before it has the matrix file. Its fields are
// the names in the workflow's matrix context.
type Leg struct {
	ID      string `json:"id"`      // cell
	Runner  string `json:"runner"`  // runner label
	Arch    string `json:"arch"`    // amd64 or arm64
	Minutes int    `json:"minutes"` // job timeout
	// Environment is the GitHub environment of the job; empty for none.
	Environment string `json:"environment,omitempty"`
}

// Output is one output of the workflow's setup job.
type Output struct {
	Name  string
	Value string
}

// MaxOutputBytes is GitHub's limit for all outputs of a job together, in UTF-16.
const MaxOutputBytes = 1 << 20

// digestBytes bounds the size of the output with the digests, which the workflow adds.
const digestBytes = 2048

// Outputs returns the setup job's outputs, always with the same names:
//
//	matrix_0 … matrix_{Waves-1}  {"include":[Leg, …]} of each wave
//	count_0  … count_{Waves-1}   how many legs the wave has; a wave without one must not start
//	archs                        processor architectures the cells need, separated by spaces: amd64 arm64
func (m *Matrix) Outputs() ([]Output, error) {
	waves := make([][]Leg, Waves)
	for i := range waves {
		waves[i] = []Leg{}
	}
	var archs []string
	for i := range m.Include {
		c := &m.Include[i]
		if c.Wave < 0 || c.Wave >= Waves {
			return nil, fmt.Errorf("cell %s is in wave %d of %d", c.ID, c.Wave, Waves)
		}
		waves[c.Wave] = append(waves[c.Wave], Leg{ID: c.ID, Runner: c.Runner, Arch: c.Arch, Minutes: c.Minutes + c.QueueMinutes, Environment: c.Environment})
		archs = append(archs, c.Arch)
	}
	slices.Sort(archs)
	var out []Output
	for i, legs := range waves {
		raw, err := json.Marshal(struct {
			Include []Leg `json:"include"`
		}{legs})
		if err != nil {
			return nil, err
		}
		n := strconv.Itoa(i)
		out = append(out, Output{"matrix_" + n, string(raw)}, Output{"count_" + n, strconv.Itoa(len(legs))})
	}
	out = append(out, Output{"archs", strings.Join(slices.Compact(archs), " ")})
	return out, checkOutputs(out)
}

func checkOutputs(outputs []Output) error {
	size := digestBytes
	for _, o := range outputs {
		size += 2 * len(utf16.Encode([]rune(o.Name+o.Value)))
	}
	if size > MaxOutputBytes {
		return fmt.Errorf("the setup job's outputs take %d bytes, GitHub allows %d; filter the plan", size, MaxOutputBytes)
	}
	return nil
}
