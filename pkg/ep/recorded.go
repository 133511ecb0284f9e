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

// RecordedPrefix precedes the path of a recorded routing where a routing is named.
const RecordedPrefix = "file:"

// Limits of a recorded routing, which is part of every case and document: bytes of the file, and
// expert ids in it.
const (
	MaxRecorded    = 4 << 20
	MaxRecordedIDs = 1 << 18
)

// Recorded is a routing read from a file with one line for each token: its experts as numbers
// separated by white space or as a JSON list.
type Recorded struct {
	File    string
	Experts []int // of all tokens, in order

	lines  []int // line number of each token
	counts []int // number of experts of each token
}

// ParseRecorded reads a routing; file names data in messages. A non-nil error is of type
// strictyaml.Errors and describes the first problem.
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
			return nil, fmt.Errorf("want a JSON list of expert ids: %w", err)
		}
		return ids, nil
	}
	for word := range strings.FieldsSeq(text) {
		id, err := strconv.ParseUint(word, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("invalid expert id %q: want a whole number from 0", word)
		}
		ids = append(ids, int(id))
	}
	return ids, nil
}

// wrong returns an error about a line.
func (r *Recorded) wrong(line int, format string, args ...any) strictyaml.Errors {
	return strictyaml.Errors{{Pos: strictyaml.Pos{File: r.File, Line: line, Col: 1}, Msg: fmt.Errorf(format, args...).Error()}}
}

// Fits returns an error of type strictyaml.Errors unless the file has at least the given number of
// tokens, each with topk distinct expert ids from 0 to experts-1.
func (r *Recorded) Fits(tokens, topk, experts int) error {
	first := 0
	for i, n := range r.counts {
		ids := r.Experts[first : first+n]
		first += n
		if n != topk {
			return r.wrong(r.lines[i], "%d expert ids, want %d, the case's top-k", n, topk)
		}
		for j, id := range ids {
			switch {
			case id < 0 || id >= experts:
				return r.wrong(r.lines[i], "invalid expert id %d: the experts are 0 to %d", id, experts-1)
			case slices.Contains(ids[:j], id):
				return r.wrong(r.lines[i], "expert %d appears twice: the experts of a token must be distinct", id)
			}
		}
	}
	if len(r.lines) < tokens {
		return r.wrong(r.lines[len(r.lines)-1], "the file has %d tokens, but the largest batch has %d: add tokens or shorten the ladder", len(r.lines), tokens)
	}
	return nil
}

// RoutingRef names a routing in a suite: one of workloads.yaml, or a recorded one.
type RoutingRef struct {
	Name     string
	Recorded *Recorded // nil: a routing of workloads.yaml
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

// recordedPrefix precedes the abbreviated digest in the name of a recorded routing.
const recordedPrefix = "file-"

// Record makes experts, TopK for each token, the routing of the case. The case keeps the slice.
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

// CheckRecorded returns an error unless the name, digest and experts of a recorded routing match,
// or there are none.
func (e *Block) CheckRecorded() error {
	if len(e.RoutingExperts) == 0 && e.RoutingSHA256 == "" && !strings.HasPrefix(e.Routing, recordedPrefix) {
		return nil
	}
	var want Block
	want.Record(e.RoutingExperts)
	if e.Routing != want.Routing || e.RoutingSHA256 != want.RoutingSHA256 {
		return errors.New("routing, routing_sha256 and routing_experts do not match")
	}
	return nil
}
