package plan

import (
	"bytes"
	"fmt"
	"strconv"
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

// UnmarshalText reads what MarshalText writes.
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
