package ep

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/strictyaml"
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
// strictyaml.Errors and has the first thing that is wrong.
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
func (r *Recorded) wrong(line int, format string, args ...any) strictyaml.Errors {
	return strictyaml.Errors{{Pos: strictyaml.Pos{File: r.File, Line: line, Col: 1}, Msg: fmt.Errorf(format, args...).Error()}}
}

// Fits returns an error of type strictyaml.Errors unless the file has at least so many tokens, each
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

// Source implements strictyaml.InFile.
func (*RoutingRef) Source() strictyaml.Source {
	return strictyaml.Source{What: "routing", Limit: MaxRecorded, Prefix: RecordedPrefix}
}

// Parse implements strictyaml.InFile.
func (r *RoutingRef) Parse(file string, data []byte) (_ string, err error) {
	if r.Name = file; data != nil {
		r.Name = RecordedPrefix + file
		r.Recorded, err = ParseRecorded(file, data)
	}
	return "", err
}

// recordedPrefix begins the name of a routing that was read from a file. The beginning of
// its digest follows.
const recordedPrefix = "file-"

// Record makes experts, TopK of each token, the routing of the case. The case keeps the
// slice.
func (e *Block) Record(experts []int) {
	sum := sha256.New()
	var id [8]byte
	for _, expert := range experts {
		binary.LittleEndian.PutUint64(id[:], uint64(expert))
		sum.Write(id[:])
	}
	e.RoutingExperts, e.RoutingSHA256 = experts, hex.EncodeToString(sum.Sum(nil))
	e.Routing = recordedPrefix + e.RoutingSHA256[:12]
}

// CheckRecorded returns an error unless name, digest and experts of a recorded routing are
// of each other, or there are none.
func (e *Block) CheckRecorded() error {
	if len(e.RoutingExperts) == 0 && e.RoutingSHA256 == "" && !strings.HasPrefix(e.Routing, recordedPrefix) {
		return nil
	}
	var want Block
	want.Record(e.RoutingExperts)
	if e.Routing != want.Routing || e.RoutingSHA256 != want.RoutingSHA256 {
		return errors.New("routing, routing_sha256 and routing_experts are not of each other")
	}
	return nil
}
