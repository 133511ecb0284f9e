package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// Repetitions are how often a row is measured.
type Repetitions struct {
	Warmup int // untimed samples of a trial
	Reps   int // timed samples of a trial
	Trials int
}

// MarshalText writes the three numbers with colons between them.
func (r Repetitions) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d:%d:%d", r.Warmup, r.Reps, r.Trials), nil
}

// UnmarshalText reads what MarshalText writes.
func (r *Repetitions) UnmarshalText(text []byte) error {
	fields := strings.Split(string(text), ":")
	if len(fields) != 3 {
		return fmt.Errorf("%q is not warm-up, repetitions and trials such as 2:8:3", text)
	}
	for i, p := range []*int{&r.Warmup, &r.Reps, &r.Trials} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return fmt.Errorf("%q is not warm-up, repetitions and trials such as 2:8:3", text)
		}
		*p = n
	}
	return nil
}
