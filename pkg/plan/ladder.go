package plan

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Ladder lists rungs, in tokens per rank, ascending. In JSON it is a string of numbers
// separated by spaces, as existing readers expect.
type Ladder []int

// MarshalText writes the rungs, separated by spaces.
func (l Ladder) MarshalText() ([]byte, error) {
	var text []byte
	for i, rung := range l {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, int64(rung), 10)
	}
	return text, nil
}

// UnmarshalText is the inverse of MarshalText.
func (l *Ladder) UnmarshalText(text []byte) error {
	*l = nil
	for field := range bytes.FieldsSeq(text) {
		rung, err := strconv.Atoi(string(field))
		if err != nil {
			return fmt.Errorf("%q is not a number of tokens", field)
		}
		*l = append(*l, rung)
	}
	return nil
}

func (l Ladder) String() string {
	text, _ := l.MarshalText()
	return string(text)
}

// Repetitions is how often a row is measured.
type Repetitions struct {
	Warmup int // untimed samples of a trial
	Reps   int // timed samples of a trial
	Trials int
}

// MarshalText writes the three numbers separated by colons.
func (r Repetitions) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d:%d:%d", r.Warmup, r.Reps, r.Trials), nil
}

// UnmarshalText is the inverse of MarshalText.
func (r *Repetitions) UnmarshalText(text []byte) error {
	fields := strings.Split(string(text), ":")
	if len(fields) != 3 {
		return fmt.Errorf("invalid repetitions %q: want warm-up, repetitions and trials such as 2:8:3", text)
	}
	for i, p := range []*int{&r.Warmup, &r.Reps, &r.Trials} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return fmt.Errorf("invalid repetitions %q: want warm-up, repetitions and trials such as 2:8:3", text)
		}
		*p = n
	}
	return nil
}
