package result_test

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
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
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/steps"
	"github.com/collectivex/collectivex/pkg/strictjson"
	"github.com/collectivex/collectivex/pkg/transfer"
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
	`identity\.attempt_ordinal`:            "counts attempts, of which a document is one",
	`elapsed\..*`:                          "clocks of the shard, whose parts no other member repeats",
	`entry_skew\.(windows|.*_us)`:          "is over windows that documents do not have, but its maximum is not below its median",
	`topology\.ranks\[\]\.numa_node`:       "of the machine",
	`devices\.ranks\[\]\.limits\[\]\.gbps`: "of the machine; those of the document are of one of its ranks",
	`measurement\.rows\[\]\.victim\.units`: "work of the victim, of which the document has the time",
	`implementation\.tuning\..*`:           "choices of a library",
	`measurement\.two_sided`:               "of the library",
	`measurement\.rows\[\]\.repeatable\.(compared_elements|different_(elements|bits)|as_declared|first\..*)`: "of results that documents do not have; within the operations, ranks and elements compared",
	`measurement\.device_memory\..*`:                                                             "readings of the driver",
	`measurement\.engines\[\]`:                                                                   "of the machine",
	`workload\.eplb\.(slots|imbalance_(before|after))`:                                           "of loads that the document does not have, but within the experts and ranks",
	`devices\.ranks\[\]\.clocks\.(readings|lowest_mhz)`:                                          "counts and minima of readings; capped ones are not more",
	`devices\.ranks\[\]\.(memory_in_use_bytes|busy_percent|fabric\..*|state_(before|after)\..*)`: "readings of the driver; the summary must follow from them",
	`measurement\.rows\[\]\.buffer_slots`:                                                        "of rows from before they had a key, which covers it",
	`.*\.(checks|checked_(elements|words)|(product|communicated)_elements)`:                      "how much a check compares depends on buffers, and no figure on it",
	`measurement\.arithmetic_as_declared\.bound`:                                                 "of one element; max_error is not above it",
	`measurement\.rows\[\]\.[a-z_]+\.(mean_us|enqueue_p50_us)`:                                   "of samples that documents do not have; within minimum and maximum, or below p50",
	`measurement\..*\.(max|min)`:                                                                 "of samples that documents do not have, but min, p50, p95 and max ascend",
	`measurement\.first\[\]\.(bytes|latency_ms\.n)`:                                              "small transfers have no rate",
	`measurement\.points\[\]\.table_sets\[\]`:                                                    "depends on the memory of the machine",
	`measurement\.rows\[\]\.parts_ms\..*`:                                                        "medians of parts do not add up to the median of the whole, but no part is above it; release is after it",
	`measurement\.setup\.connect_ms`:                                                             "once, before everything else",
	`measurement\.sustained\[\]\.(cpu_s_per_gb|in_flight)`:                                       "processor time and depth; not below that of the posting rank",
	`measurement\.rows\[\]\.(compute|communication)_coverage`:                                    "of spans that documents do not have; from 0 to 1",
	`measurement\.rows\[\]\.(communication_inside_us)\.p50`:                                      "below its p95, and that of both sides together",
	`measurement\.shared_processor`:                                                              "of the machine",
	`(measurement|simulation)\.program\..*`:                                                      "describes a program, by a digest, that documents do not have",
	`simulation\.rows\[\]\.critical_path\.ops`:                                                   "of that program",
	`implementation\.cuda_graph_supported`:                                                       "of the adapter; graphs that were timed are supported",
	`measurement\.rows\[\]\..*\.percentiles_us\.p[0-9]+`:                                         "of samples that documents do not have; they ascend, lie in their histogram, and a minimum over ranks is not above the maximum",
	`measurement\.rows\[\]\.histograms\.[a-z_]+\.min_us`:                                         "bounded by the bins of the percentiles",
	`measurement\.rows\[\]\.correctness\.(max_relative|chain_last_output)_error`:                 "below the tolerance, if the row passed",
	`measurement\.rows\[\]\.((device|host)\.opposite_gbps|both\.gbps)`:                           "of times of the other rank, which documents do not have",
	`measurement\.rows\[\]\.receive\.max`:                                                        "not below the mean",
	`measurement\.rows\[\]\.routing\.empty_expert_count`:                                         "above 0 exactly if the smallest load is 0",
}

// absent are members that no successful document has: forms of rows that schedules share with collectives, times that
// are refused, and what a document has twice. Of transfers between nodes there is no document here.
var absent = []string{
	`schedule .*\.(src|dst|graph\..*|sizes_dropped\[\]\..*|repeatable\..*|device_memory\..*|ctas|group\[\])`,
	`collective .*\.repeatable\.(first\.token|as_declared)`,
	`transfer measurement\.lane_unverified`,
	`(collective|schedule) .*\.(blocking|per_iteration)\.enqueue_p50_us`,
}

// Whatever number of a successful document is changed, under a digest made again, it is refused by name, unless
// nothing else in the document determines it.
func TestNoNumberIsTakenOnTrust(t *testing.T) {
	patterns := map[string]*regexp.Regexp{}
	for pattern := range taken {
		patterns[pattern] = regexp.MustCompile("^" + pattern + "$")
	}
	inspector := result.NewInspector(func(string) error { return nil })
	used, told := map[string]bool{}, map[plan.Family]map[string]bool{"": {}} // told: members by family, "": of any
	for _, line := range honest(t) {
		in, err := inspector.Inspect(sealed(line))
		require.NoError(t, err)
		if in.Head.Status != result.Success {
			continue
		}
		seen := map[string]int{}
		of := in.Document.Head().Identity.Case.Family
		if told[of] == nil {
			told[of] = map[string]bool{}
		}
		for _, l := range lies(t, line) {
			told[of][l.path], told[""][l.path] = true, true
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
	shared := numbers(reflect.TypeFor[result.Envelope](), "")
	for _, f := range result.Families() {
		for _, pattern := range numbers(reflect.TypeOf(f.Document), "") {
			of := f.Name
			if slices.Contains(shared, pattern) {
				of = ""
			}
			re := regexp.MustCompile("^" + pattern + "$")
			if slices.ContainsFunc(absent, func(of string) bool {
				return regexp.MustCompile("^(" + of + ")$").MatchString(string(f.Name) + " " + strings.ReplaceAll(pattern, `\`, ""))
			}) {
				continue
			}
			assert.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(told[of])), re.MatchString), "no document of family %s has %s", f.Name, pattern)
		}
	}
}

// hollows returns each number of a document replaced by 0, each array by an empty one and each object by one without
// members.
func hollows(t *testing.T, line []byte) (out []lie) {
	t.Helper()
	d := jsontext.NewDecoder(bytes.NewBuffer(line))
	indices := regexp.MustCompile(`\[[0-9]+\]`)
	var open []int
	for {
		kind := d.PeekKind()
		if kind == jsontext.KindInvalid {
			return out
		}
		token, err := d.ReadToken()
		require.NoError(t, err)
		end := int(d.InputOffset())
		add := func(start int, value string) {
			out = append(out, lie{indices.ReplaceAllString(strictjson.Path(d.StackPointer()), "[]"), start, end, value})
		}
		switch kind {
		case jsontext.KindNumber:
			add(end-len(token.String()), "0")
		case jsontext.KindBeginArray, jsontext.KindBeginObject:
			open = append(open, end-1)
		case jsontext.KindEndArray, jsontext.KindEndObject:
			start := open[len(open)-1]
			if open = open[:len(open)-1]; len(open) > 0 { // not the document itself
				add(start, map[jsontext.Kind]string{jsontext.KindEndArray: "[]", jsontext.KindEndObject: "{}"}[kind])
			}
		}
	}
}

// Nothing that a document lacks ends the program, though families compute with the values of cases.
func TestNothingHollowPanics(t *testing.T) {
	inspector := result.NewInspector(func(string) error { return nil })
	impossible := 0
	for _, line := range honest(t) {
		seen := map[string]bool{}
		for _, h := range hollows(t, line) {
			if seen[h.path+h.value] { // rows are alike
				continue
			}
			seen[h.path+h.value] = true
			_, err := inspector.Inspect(sealed(slices.Concat(line[:h.start], []byte(h.value), line[h.end:])))
			if err == nil || errors.Is(err, result.ErrForeign) {
				continue
			}
			require.ErrorIs(t, err, result.ErrInvalid, "%s is %s", h.path, h.value)
			if strings.Contains(err.Error(), "impossible to check") {
				impossible++
			}
		}
	}
	require.Positive(t, impossible)
}

// A document of devices without ranks is refused by name.
func TestDevicesHaveRanks(t *testing.T) {
	d := resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt())
	d.Devices = &result.Devices{Throttled: []result.Throttle{}, Warnings: []string{}, Ranks: []result.RankDevice{}}
	data, err := result.EncodeDocument(d)
	require.NoError(t, err)
	_, err = result.NewInspector(func(string) error { return nil }).Inspect(data)
	require.ErrorIs(t, err, result.ErrInvalid)
	require.ErrorContains(t, err, "devices: ")
}

// numbers returns patterns for the paths of all numbers and booleans in the JSON of a type at a path, without its
// case.
func numbers(t reflect.Type, at string) (all []string) {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return numbers(t.Elem(), at)
	case reflect.Slice:
		return numbers(t.Elem(), at+`\[\]`)
	case reflect.Map:
		return numbers(t.Elem(), at+`\.[^.]+`)
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				all = append(all, numbers(f.Type, at)...)
			case name == "-" || f.Type == reflect.TypeFor[result.Identity]():
			default:
				all = append(all, numbers(f.Type, strings.TrimPrefix(at+`\.`+name, `\.`))...)
			}
		}
	case reflect.String, reflect.Interface:
	default:
		return []string{at}
	}
	return all
}

// names reports whether an error names the member at path, or the row or object that it is in.
func names(err error, path string) bool {
	if strings.HasPrefix(path, "identity.case") {
		return strings.Contains(err.Error(), "identity.") || strings.Contains(err.Error(), "comparison_key") || strings.Contains(err.Error(), "record_type")
	}
	text := strings.ReplaceAll(err.Error(), "but row ", "rows[ passed ")
	parts := strings.Split(strings.ReplaceAll(path, "[]", "["), ".")
	return slices.ContainsFunc(parts, func(name string) bool {
		return name != "measurement" && name != "simulation" && (strings.Contains(text, name) || slices.Contains([]string{"batches[", "ladder_measured[", "ladder_dropped[", "sizes_dropped["}, name))
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
	documents := whole()
	for _, c := range []plan.Case{
		resulttest.EPCase(), graphs, resulttest.CollectiveCase(), resulttest.UpstreamTransferCase(),
		plantest.Copy("ce", "device_to_device_bidirectional_memcpy_read_ce"), plantest.CopyOn("ce", "device_to_device_memcpy_read_ce", 3),
		plantest.CopyOn("ce", "all_to_host_memcpy_ce", 3), plantest.CopyOn("ce", "all_to_one_write_ce", 3),
		plantest.Copy("sm", "host_device_latency_sm", func(c *plan.Case) { copies.Of(c).Sizes = []int64{4096} }), plantest.Overlap("host", overlap.Beside, 2),
	} {
		documents = append(documents, resulttest.Successful(c, resulttest.Attempt()))
	}
	for _, d := range documents {
		data, err := result.EncodeDocument(d)
		require.NoError(t, err)
		lines = append(lines, bytes.TrimSpace(data))
	}
	return lines
}

// whole returns documents with members that few documents have.
func whole() []result.Document {
	watched := resulttest.EP(plantest.EP(2, func(c *plan.Case) {
		most := 4
		ep.Of(c).Ladder, ep.Of(c).LadderCap = plan.Ladder{1, 4, 8}, &most
	}), resulttest.Attempt())
	watched.Devices = result.NewDevices([]result.RankDevice{device(0), device(1)})
	watched.Limits = []result.Limit{device(0).Limits[0]}
	watched.Implementation.Tuning = &result.Tuning{SMs: 24, TheoreticalSMs: 20, QueuePairs: 4, PreferOverlap: true, HandleCopy: true}

	apart := resulttest.UpstreamTransferCase()
	nodes := resulttest.Transfer(apart, resulttest.Attempt())
	nodes.EntrySkew = &result.EntrySkew{Windows: 3, P50: 1, Max: 2, Bound: true}
	nodes.Measurement.TwoSided = true
	for i := range nodes.Measurement.Sustained {
		s := &nodes.Measurement.Sustained[i]
		s.Parts, s.Verify.Checks = 3, 6
		rows := 0
		for _, r := range nodes.Measurement.Rows {
			if r.Op == s.Op && r.Kind == transfer.KindPaged {
				rows++
			}
		}
		nodes.Measurement.Fit = append(nodes.Measurement.Fit, transfer.Fit{Op: s.Op, Alpha: 1000, GBps: 10, Points: rows}) // as resulttest makes times
	}

	modes := func(c *plan.Case) {
		collective.Of(c).Modes, collective.Of(c).Sizes = vocab.TimingModes(), []int64{4, 1024}
		collective.Of(c).Op, collective.Of(c).RedOp = "all_gather", ""
	}
	ring, simulated := plantest.Twins()
	steps.Of(&ring).Modes, steps.Of(&ring).Sizes = []string{vocab.Pipelined, vocab.Blocking, vocab.PerIteration}, []int64{4, 1024}
	ring.CaseID = ring.ID()
	sums := resulttest.Schedule(ring, resulttest.Attempt())
	half := 0.5
	sums.Measurement.Arithmetic = &result.Arithmetic{Passed: true, Accumulation: "rank-fp32", Checked: 64, MaxError: &half, Bound: &half}
	varying := resulttest.Collective(plantest.Collective(2, func(c *plan.Case) { collective.Of(c).Measure.Repeatable, collective.Of(c).CTAs = 4, 2 }), resulttest.Attempt())
	for i := range varying.Measurement.Rows {
		varying.Measurement.Rows[i].CTAs = 2
		varying.Measurement.Rows[i].Repeatable = &result.Repeatability{
			Operations: 4, Compared: 8, Elements: 3, Bits: 5, First: &result.Difference{Operation: 1, Rank: 1, Element: 2, Bit: 7},
		}
	}
	varying.Measurement.Memory = &collective.Memory{Communicators: 1 << 20, Buffers: 2 << 20, Operations: -4096}
	groups := resulttest.Collective(plantest.Collective(4, func(c *plan.Case) { collective.Of(c).Groups = [][]int{{0, 2}, {1, 3}} }), resulttest.Attempt())
	library := resulttest.Collective(plantest.Collective(2, modes), resulttest.Attempt())
	for i := range library.Measurement.Rows {
		r := &library.Measurement.Rows[i]
		r.Graph.Enqueue = r.Graph.Min / 2
	}
	times := resulttest.Simulation(simulated, resulttest.Attempt())
	for i := range times.Simulation.Rows {
		r := &times.Simulation.Rows[i]
		r.Path.Issue, r.Path.Memory, r.Makespan = 1e6, 2e6, r.Makespan+3e6
	}
	victim := resulttest.Copy(plantest.Copy("ce", "device_local_copy", func(c *plan.Case) { copies.Of(c).Victim = true }), resulttest.Attempt())
	victim.Measurement.Engines = []int{0, 3}
	for i := range victim.Measurement.Rows {
		r := &victim.Measurement.Rows[i]
		r.Victim.CopyCoverage = 1
		r.Victim.VictimFigures = r.Victim.Figures(r.Device)
	}
	long := resulttest.Transfer(plantest.Transfer(func(c *plan.Case) {
		transfer.Of(c).ISLLadder, transfer.Of(c).BatchSizes = plan.Ladder{64, transfer.MaxBurstTokens}, plan.Ladder{1, 2}
	}), resulttest.Attempt())
	swaps := resulttest.Copy(plantest.Copy("ce", "swap_blocks_h2d"), resulttest.Attempt())
	return []result.Document{watched, balanced(), long, nodes, times, victim, swaps, sums, library, varying, groups}
}

// balanced is a document of replicated experts whose rows are staged, and their combines not repeatable.
func balanced() result.Document {
	d := resulttest.EP(plantest.EP(2, func(c *plan.Case) { ep.Of(c).Routing, ep.Of(c).Repeatable = "zipf-eplb", 4 }), resulttest.Attempt())
	d.Workload.EPLB = &ep.Placement{Slots: 2 * ep.Of(&d.Identity.Case).Experts, ImbalanceBefore: 1.5, ImbalanceAfter: 1.25, MappingSHA256: strings.Repeat("0", 64)}
	for i := range d.Measurement.Rows {
		token, declared := int64(0), true
		d.Measurement.Rows[i].Repeatable = &result.Repeatability{
			Operations: 4, Compared: 64, Elements: 3, Bits: 5, First: &result.Difference{Operation: 1, Rank: 1, Token: &token, Element: 2, Bit: 7}, AsDeclared: &declared,
		}
		k := &d.Measurement.Rows[i].Components
		k.Stage = k.Dispatch
		k.IsolatedSum.Percentiles = k.Sum()
	}
	return d
}

// device is a GPU with a clock that was capped in two trials, one of them in all of its repetitions.
func device(rank int) result.RankDevice {
	none, busy := 0, 1
	state := &result.DeviceState{
		OtherProcesses: &none, SMMHz: 1800, MemMHz: 2600, TemperatureC: 50, PowerW: 500, ThrottleCounters: map[string]uint64{"sw-power-cap": 7}, ECCCorrected: 1, ECCUncorrected: 1,
	}
	return result.RankDevice{
		Rank: rank, MemoryInUse: 1 << 20, BusyPercent: &busy, Limits: []result.Limit{{Of: result.LimitLink, GBps: 450, Sum: "18 x 25 nvlink", Source: "nvml"}},
		Clocks:         &result.ClockReadings{Readings: 40, Capped: 5, CappedBy: []string{"hw-slowdown", "hw-thermal-slowdown"}, LowestMHz: 1400},
		TrialsRepeated: 4, TrialsCapped: 1, Before: state, After: state, Fabric: &result.Fabric{SentBytes: 9, ReceivedBytes: 9, WaitTicks: 9},
	}
}
