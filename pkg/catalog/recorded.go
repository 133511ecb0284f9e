package catalog

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// RecordedPrefix stands before the path of a recorded routing, where a routing is named.
const RecordedPrefix = "file:"

// Limits of a recorded routing: bytes of the file, and expert ids in it. Every case has
// them, and so has every document.
const (
	MaxRecorded    = 4 << 20
	MaxRecordedIDs = 1 << 18
)

// Recorded is a routing as a file says it: the experts of a token a line, as plain numbers
// between white space or as a JSON list.
type Recorded struct {
	File    string
	Experts []int // of one token after the other

	lines  []int // of each token
	counts []int // experts of each token
}

// ParseRecorded reads a routing; file names data in messages. A non-nil error is of type
// Errors and has the first thing that is wrong.
func ParseRecorded(file string, data []byte) (*Recorded, error) {
	r := &Recorded{File: file}
	line := 0
	for text := range strings.Lines(string(data)) {
		line++
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		ids, err := parseIDs(text)
		if err != nil {
			return nil, r.wrong(line, "%w", err)
		}
		r.Experts = append(r.Experts, ids...)
		r.lines, r.counts = append(r.lines, line), append(r.counts, len(ids))
		if len(r.Experts) > MaxRecordedIDs {
			return nil, r.wrong(line, "more than %d expert ids: give fewer tokens", MaxRecordedIDs)
		}
	}
	if len(r.lines) == 0 {
		return nil, r.wrong(1, "the file has no tokens")
	}
	return r, nil
}

// parseIDs reads the experts of one token.
func parseIDs(text string) (ids []int, err error) {
	if text[0] == '[' {
		if err := json.Unmarshal([]byte(text), &ids); err != nil {
			return nil, fmt.Errorf("a JSON list of expert ids is wanted: %w", err)
		}
		return ids, nil
	}
	for word := range strings.FieldsSeq(text) {
		id, err := strconv.ParseUint(word, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("an expert id must be a whole number from 0, not %q", word)
		}
		ids = append(ids, int(id))
	}
	return ids, nil
}

// wrong is an error about a line.
func (r *Recorded) wrong(line int, format string, args ...any) Errors {
	return Errors{{Pos{r.File, line, 1}, fmt.Errorf(format, args...).Error()}}
}

// Fits returns an error of type Errors unless the file has at least so many tokens, each
// with topk distinct ones of the experts.
func (r *Recorded) Fits(tokens, topk, experts int) error {
	first := 0
	for i, n := range r.counts {
		ids := r.Experts[first : first+n]
		first += n
		if n != topk {
			return r.wrong(r.lines[i], "%d expert ids, want %d: as many as top-k", n, topk)
		}
		for j, id := range ids {
			switch {
			case id < 0 || id >= experts:
				return r.wrong(r.lines[i], "no expert %d: there are %d, from 0", id, experts)
			case slices.Contains(ids[:j], id):
				return r.wrong(r.lines[i], "expert %d twice: the experts of a token are distinct", id)
			}
		}
	}
	if len(r.lines) < tokens {
		return r.wrong(r.lines[len(r.lines)-1], "the file ends after %d tokens, and the largest batch has %d", len(r.lines), tokens)
	}
	return nil
}

// RoutingRef is a routing of a suite: one of workloads.yaml, or a recorded one.
type RoutingRef struct {
	Name     string
	Recorded *Recorded // nil: the routing has a name
}

// decode implements custom: the value is a name, or file: and a path below the
// definitions.
func (r *RoutingRef) decode(d *decoder, n *yaml.Node, f field) {
	file, recorded := strings.CutPrefix(n.Value, RecordedPrefix)
	if n.Kind != yaml.ScalarNode || !recorded {
		d.scalar(n, reflect.ValueOf(&r.Name).Elem(), f)
		return
	}
	data, ok := d.content(n, "routing", file, MaxRecorded)
	if !ok {
		return
	}
	read, err := ParseRecorded(file, data)
	if err != nil {
		d.note(err)
		return
	}
	r.Name, r.Recorded = n.Value, read
}
