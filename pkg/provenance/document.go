package provenance

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// own matches the places of documents and descriptions whose text comes from this program: values
// of closed lists, numbers, names from the definitions. The name of a machine may equal one of
// these. Text in any other place may come from the machine, its libraries or its environment.
var own = regexp.MustCompile(`^(record_type|generated_at|comparison_key|digest|program|backends|identity|workload|measurement|devices|` +
	`implementation\.(name|maturity|kernel_generation|combine_reduction|fp8_consume)|runtime\.vendor|` +
	`topology\.(placement|scope|transport|topology_class|scale_(up|out)_transport)|` +
	`provenance\.(image|source_sha|generator|host\.arch)|host\.arch|outcome\.status|` +
	// of a record among the samples
	`kind|data\.(began|mode|modes|placement|rungs|path|checked_by|component|combine|combine_reduction|dispatch_dtype|fp8_consume|kernel_generation|receive|digest|when))($|[.[])`)

// reasons matches the places of text that begins with a code of a closed list. The text after
// ": " may come from elsewhere.
var reasons = regexp.MustCompile(`^outcome\.reasons\[`)

// Document checks every string and key of a JSON document for private forms and secrets,
// and checks for names of this machine wherever text may come from elsewhere. A name does
// not count if it is also a word of the planned case (identity.case), which is public
// already, or in a key that the schema defines.
func (s *Screen) Document(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	planned := ""
	if doc, ok := v.(map[string]any); ok {
		if id, ok := doc["identity"].(map[string]any); ok {
			if c, err := json.Marshal(id["case"]); err == nil {
				planned = strings.ToLower(string(c))
			}
		}
	}
	return s.walk(v, "", func(name string) bool { return holdsWord(planned, name) })
}

// walk checks v, which stands at a place like outcome.reasons[0] of the document.
func (s *Screen) walk(v any, place string, public func(string) bool) error {
	switch x := v.(type) {
	case string:
		if err := s.text(x, place, public); err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
	case []any:
		for i, e := range x {
			if err := s.walk(e, fmt.Sprintf("%s[%d]", place, i), public); err != nil {
				return err
			}
		}
	case map[string]any:
		publicKey := public
		if !slices.Contains(brought, place[strings.LastIndexByte(place, '.')+1:]) {
			publicKey = anything
		}
		for k, e := range x {
			if err := s.check(k, publicKey); err != nil {
				return fmt.Errorf("a key of %s: %w", place, err)
			}
			if err := s.walk(e, strings.TrimPrefix(place+"."+k, "."), public); err != nil {
				return err
			}
		}
	}
	return nil
}

// text checks a string at a place.
func (s *Screen) text(text, place string, public func(string) bool) error {
	switch {
	case own.MatchString(place):
		public = anything
	case reasons.MatchString(place):
		_, detail, _ := strings.Cut(text, ": ")
		if err := s.check(detail, public); err != nil {
			return err
		}
		public = anything // text is the code
	}
	return s.check(text, public)
}

// anything accepts every name. It is used for text of this program; private forms and secrets
// are refused even there.
func anything(string) bool { return true }

// brought are the objects of documents whose keys are not words of the schema but come from
// a machine, its environment or a measurement.
var brought = []string{"env", "environment", "histograms", "host", "throttle_counters", "undriven"}
