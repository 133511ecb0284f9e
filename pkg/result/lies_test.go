package result_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/strictjson"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// lie is one number or boolean of a document, and what to write in its place.
type lie struct {
	path       string // a.b[].c
	start, end int
	value      string
}

// lies returns each number of a document multiplied by ten and negated, and each boolean inverted.
func lies(t *testing.T, line []byte) (out []lie) {
	t.Helper()
	d := jsontext.NewDecoder(bytes.NewBuffer(line))
	indices := regexp.MustCompile(`\[[0-9]+\]`)
	for {
		if kind := d.PeekKind(); kind == jsontext.KindInvalid {
			return out
		} else if kind != jsontext.KindNumber && kind != jsontext.KindTrue && kind != jsontext.KindFalse {
			_, err := d.ReadToken()
			require.NoError(t, err)
			continue
		}
		raw, err := d.ReadValue()
		require.NoError(t, err)
		text, end := string(raw), int(d.InputOffset())
		add := func(value string) {
			out = append(out, lie{indices.ReplaceAllString(strictjson.Path(d.StackPointer()), "[]"), end - len(text), end, value})
		}
		switch text {
		case "true":
			add("false")
		case "false":
			add("true")
		case "0":
			add("1")
			add("-1")
		default:
			add(tenfold(text))
			add(strings.TrimPrefix("-"+text, "--"))
		}
	}
}

// tenfold multiplies a number by ten.
func tenfold(text string) string {
	digits, exponent, _ := strings.Cut(text, "e")
	if exponent != "" || strings.Contains(digits, ".") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic(err)
		}
		return fmt.Sprint(10 * f)
	}
	return text + "0"
}

// sealed returns a document, without a newline, under a digest made again.
func sealed(line []byte) []byte {
	content, _, found := bytes.Cut(line, []byte(`,"digest":"`))
	if !found {
		content = bytes.TrimSuffix(line, []byte("}"))
	}
	return fmt.Appendf(nil, `%s,"digest":"sha256:%x"}`, content, sha256.Sum256(content))
}

// taken are the members of documents that nothing else in them determines, and why. A pattern matches whole paths.
var taken = map[string]string{
	`identity\.attempt_ordinal`:      "counts attempts, of which a document is one",
	`elapsed\..*`:                    "clocks of the shard, whose parts no other member repeats",
	`entry_skew\..*`:                 "is over windows that documents do not have, but its maximum is not below its median",
	`topology\.ranks\[\]\.numa_node`: "of the machine",
	`devices\.ranks\[\]\.(memory_in_use_bytes|state_(before|after)\..*)`:         "readings of the driver; the summary must follow from them",
	`measurement\.rows\[\]\.buffer_slots`:                                        "of rows from before they had a key, which covers it",
	`.*\.(checks|checked_(elements|words)|(product|communicated)_elements)`:      "how much a check compares depends on buffers, and no figure on it",
	`measurement\.arithmetic_as_declared\.bound`:                                 "of one element; max_error is not above it",
	`measurement\.rows\[\]\.[a-z_]+\.(mean_us|enqueue_p50_us)`:                   "of samples that documents do not have; within minimum and maximum, or below p50",
	`measurement\..*\.(max|min)`:                                                 "of samples that documents do not have, but min, p50, p95 and max ascend",
	`measurement\.first\[\]\.(bytes|latency_ms\.n)`:                              "small transfers have no rate",
	`measurement\.points\[\]\.table_sets\[\]`:                                    "depends on the memory of the machine",
	`measurement\.rows\[\]\.parts_ms\..*`:                                        "medians of parts do not add up to the median of the whole, but no part is above it; release is after it",
	`measurement\.setup\.connect_ms`:                                             "once, before everything else",
	`measurement\.sustained\[\]\.(cpu_s_per_gb|in_flight)`:                       "processor time and depth; not below that of the posting rank",
	`measurement\.rows\[\]\.(compute|communication)_coverage`:                    "of spans that documents do not have; from 0 to 1",
	`measurement\.rows\[\]\.(communication_inside_us)\.p50`:                      "below its p95, and that of both sides together",
	`measurement\.shared_processor`:                                              "of the machine",
	`(measurement|simulation)\.program\..*`:                                      "describes a program, by a digest, that documents do not have",
	`simulation\.rows\[\]\.critical_path\.ops`:                                   "of that program",
	`implementation\.cuda_graph_supported`:                                       "of the adapter; graphs that were timed are supported",
	`measurement\.rows\[\]\..*\.percentiles_us\.p[0-9]+`:                         "of samples that documents do not have; they ascend, lie in their histogram, and a minimum over ranks is not above the maximum",
	`measurement\.rows\[\]\.histograms\.[a-z_]+\.min_us`:                         "bounded by the bins of the percentiles",
	`measurement\.rows\[\]\.correctness\.(max_relative|chain_last_output)_error`: "below the tolerance, if the row passed",
	`measurement\.rows\[\]\.((device|host)\.opposite_gbps|both\.gbps)`:           "of times of the other rank, which documents do not have",
	`measurement\.rows\[\]\.receive\.max`:                                        "not below the mean",
	`measurement\.rows\[\]\.routing\.empty_expert_count`:                         "above 0 exactly if the smallest load is 0",
}

// Whatever number of a successful document is changed, under a digest made again, it is refused by name, unless
// nothing else in the document determines it.
func TestNoNumberIsTakenOnTrust(t *testing.T) {
	patterns := map[string]*regexp.Regexp{}
	for pattern := range taken {
		patterns[pattern] = regexp.MustCompile("^" + pattern + "$")
	}
	inspector := result.NewInspector(func(string) error { return nil })
	used := map[string]bool{}
	for _, line := range honest(t) {
		in, err := inspector.Inspect(sealed(line))
		require.NoError(t, err)
		if in.Head.Status != result.Success {
			continue
		}
		seen := map[string]int{}
		for _, l := range lies(t, line) {
			if seen[l.path]++; seen[l.path] > 4 { // rows are alike
				continue
			}
			_, err := inspector.Inspect(sealed(slices.Concat(line[:l.start], []byte(l.value), line[l.end:])))
			if err != nil {
				assert.True(t, names(err, l.path), "%s: %v", l.path, err)
				continue
			}
			known := false
			for pattern, re := range patterns {
				if re.MatchString(l.path) {
					known, used[pattern] = true, true
				}
			}
			assert.True(t, known, "%s may be %s instead of %s in document of case %s", l.path, l.value, line[l.start:l.end], in.Head.CaseID)
		}
	}
	for pattern := range taken {
		assert.True(t, used[pattern], "%s is determined", pattern)
	}
}

// names reports whether an error names the member at path, or the row or object that it is in.
func names(err error, path string) bool {
	if strings.HasPrefix(path, "identity.case") {
		return strings.Contains(err.Error(), "identity.") || strings.Contains(err.Error(), "comparison_key") || strings.Contains(err.Error(), "record_type")
	}
	text := strings.ReplaceAll(err.Error(), "but row ", "rows[ passed ")
	parts := strings.Split(strings.ReplaceAll(path, "[]", "["), ".")
	return slices.ContainsFunc(parts, func(name string) bool {
		return name != "measurement" && name != "simulation" && (strings.Contains(text, name) || name == "batches[" || name == "ladder_measured[")
	})
}

// honest returns documents of every family: of earlier versions, as they were written, and of this one.
func honest(t *testing.T) (lines [][]byte) {
	t.Helper()
	samples, err := filepath.Glob("../../testdata/documents/*.ndjson")
	require.NoError(t, err)
	for _, sample := range samples {
		data, err := os.ReadFile(sample)
		require.NoError(t, err)
		for line := range strings.Lines(string(data)) {
			lines = append(lines, []byte(strings.TrimSpace(line)))
		}
	}
	graphs := resulttest.EPCase()
	ep.Of(&graphs).TimingMode = vocab.Graph
	graphs.CaseID = graphs.ID()
	for _, c := range []plan.Case{
		resulttest.EPCase(), graphs, resulttest.CollectiveCase(), resulttest.UpstreamTransferCase(),
		plantest.Copy("ce", "device_to_device_bidirectional_memcpy_read_ce"),
	} {
		data, err := result.EncodeDocument(resulttest.Successful(c, resulttest.Attempt()))
		require.NoError(t, err)
		lines = append(lines, bytes.TrimSpace(data))
	}
	return lines
}
