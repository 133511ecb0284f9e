package shard

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

// This file is a small family in this test binary, which is both the shard and,
// started again, its ranks. One op of it is a barrier through the store; its
// check is that all ranks sent each other their numbers.

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "rank":
			os.Exit(rankMain(os.Args[2:]))
		case "shard":
			os.Exit(shardMain(os.Args[2:]))
		}
	}
	// The tests mostly wait. A -parallel on the command line is parsed later and wins.
	if err := flag.Set("test.parallel", "6"); err != nil {
		log.Fatal(err)
	}
	os.Exit(m.Run())
}

// tokenVariable names a file into which ranks write the token of their store.
const tokenVariable = "CX_TEST_TOKEN_FILE"

func rankMain(args []string) int {
	var p rank.Place
	f := flag.NewFlagSet("rank", flag.ExitOnError)
	store := f.String("store", "", "")
	f.IntVar(&p.Rank, "rank", 0, "")
	f.IntVar(&p.World, "world", 0, "")
	f.IntVar(&p.LocalRank, "local-rank", 0, "")
	f.IntVar(&p.Node, "node", 0, "")
	_ = f.Parse(args)
	stopAt("starting", p.Rank)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := rendezvous.Join(*store, os.Getenv)
	if err != nil {
		log.Print(err)
		return 3
	}
	if to := os.Getenv(tokenVariable); to != "" {
		if err := os.WriteFile(to, []byte(os.Getenv(rendezvous.TokenVariable)), 0o600); err != nil {
			log.Print(err)
			return 3
		}
	}
	faults, err := rank.ParseFaults(os.Getenv(rank.FaultVariable), "flip", "library", "refuse", "full", "secret", "flood", "leave")
	if err != nil {
		log.Print(err)
		return 2
	}
	find := func(c plan.Case) (rank.Opener, error) { return fakeFamilies()[c.Family].Backends[c.Backend], nil }
	if err := rank.Loop(ctx, p, s, find, faults, os.Stderr); err != nil {
		log.Print(err)
		if errors.Is(err, rank.ErrStore) {
			return rank.ExitStore
		}
		return 1
	}
	return 0
}

func fakeFamilies() Registry {
	return Registry{collective.Name: {
		Assemble: fakeAssemble,
		Backends: map[string]rank.Opener{"fake": fakeOpen},
	}}
}

// fakeRecord is one size of one rank.
type fakeRecord struct {
	Bytes int64 `json:"bytes"`
	Wrong int64 `json:"wrong"`
	PID   int   `json:"pid"`   // shows which process ran the case
	Cases int   `json:"cases"` // of the runner so far
	Env   string
}

type fakeRunner struct{ rank, cases int }

func fakeOpen(_ context.Context, s *rank.Session, _ plan.Case) (rank.Runner, error) {
	stopAt("opening", s.Rank)
	return &fakeRunner{rank: s.Rank}, nil
}

func (r *fakeRunner) Close() error {
	stopAt("closing", r.rank)
	return nil
}

// stopVariable says where rank 1 stops itself by SIGSTOP.
const stopVariable = "FAKE_STOP"

func stopAt(point string, rank int) {
	if rank == 1 && os.Getenv(stopVariable) == point {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		for { // other threads may have run on for a moment
			time.Sleep(time.Hour)
		}
	}
}

func (r *fakeRunner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	r.cases++
	if err := s.Emit(rank.KindFacts, rank.Facts{
		DeviceProduct: "Fake One", Framework: "fake", NUMANode: -1, Library: rank.Library{Kind: "fake", Version: "1.2.3"},
	}); err != nil {
		return err
	}
	for i, bytes := range collective.Of(&c).Sizes {
		values, err := s.Store.Gather(ctx, fmt.Sprintf("%s/size-%d", s.Scope, i), s.Rank, s.World, fmt.Append(nil, s.Rank))
		if err != nil {
			return err
		}
		var wrong int64
		for r, v := range values {
			if string(v) != fmt.Sprint(r) {
				wrong++
			}
		}
		if i == 1 {
			stopAt("measuring", s.Rank)
		}
		if i == 1 && s.Rank == 1 && os.Getenv(stopVariable) == "writing" {
			stream := filepath.Join(filepath.Dir(s.Store.Dir()), rank.StreamKey(s.Scope, s.Rank)+"@stream")
			f, err := os.OpenFile(stream, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			if _, err := f.WriteString(`{"kind":"do`); err != nil {
				return err
			}
			stopAt("writing", s.Rank)
		}
		if _, flip := s.Fault("flip"); flip {
			wrong++
		}
		if _, library := s.Fault("library"); library {
			return rank.Coded(result.ReasonLibrary, fmt.Errorf("secret-host.example.com said /no/such/path"))
		}
		if _, refuse := s.Fault("refuse"); refuse {
			return rank.Coded(result.ReasonRefused, fmt.Errorf("no such size"))
		}
		if _, full := s.Fault("full"); full {
			signal.Ignore(syscall.SIGXFSZ)
			if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{}); err != nil {
				return err
			}
		}
		if _, flood := s.Fault("flood"); flood {
			stream := filepath.Join(filepath.Dir(s.Store.Dir()), rank.StreamKey(s.Scope, s.Rank)+"@stream")
			if err := os.Truncate(stream, 1<<40); err != nil {
				return err
			}
		}
		if _, secret := s.Fault("secret"); secret {
			if err := s.Emit("note", map[string]string{"text": "secret-host.example.com"}); err != nil {
				return err
			}
		}
		if err := s.Emit("size", fakeRecord{Bytes: bytes, Wrong: wrong, PID: os.Getpid(), Cases: r.cases, Env: os.Getenv("FAKE_CASE")}); err != nil {
			return err
		}
	}
	if _, at := s.Fault("leave"); at { // a child that outlives its rank
		attr := &os.ProcAttr{Files: []*os.File{nil, os.Stderr, os.Stderr}}
		if _, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000.1234"}, attr); err != nil {
			return err
		}
	}
	return nil
}

// fakeAssemble makes a row per size that any rank told of, and judges as families do.
func fakeAssemble(d result.Document, streams []rank.Stream) error {
	doc := d.(*collective.Document)
	c := doc.Identity.Case
	told := map[int64]int{}
	wrong := map[int64]int64{}
	for _, s := range streams {
		for _, r := range s.Records {
			if r.Kind != "size" {
				continue
			}
			var f fakeRecord
			if err := json.Unmarshal(r.Data, &f); err != nil {
				return err
			}
			told[f.Bytes]++
			wrong[f.Bytes] += f.Wrong
		}
	}
	doc.Measurement.CheckedBy = "host"
	var wrongs result.Reasons
	passed := true
	for _, bytes := range collective.Of(&c).Sizes {
		row := collective.Row{
			Requested: bytes, Bytes: bytes, Count: bytes / 4, Placement: "out_of_place", Slots: 1,
			Complete: told[bytes] == c.World, Pipelined: resulttest.Timing(&c, bytes, 1, collective.Of(&c).Measure.Trials),
			Check: collective.Check{Checked: bytes, Wrong: wrong[bytes]},
		}
		row.Check.Passed = row.Complete && row.Check.Wrong == 0
		passed = passed && row.Check.Passed
		if row.Check.Wrong > 0 {
			wrongs = result.Reasons{{Code: result.ReasonSemantics}}
		}
		if told[bytes] > 0 {
			doc.Measurement.Rows = append(doc.Measurement.Rows, row)
			doc.Workload.SizesMeasured = append(doc.Workload.SizesMeasured, bytes)
		}
	}
	done := !slices.ContainsFunc(streams, func(s rank.Stream) bool { return !s.Done })
	doc.Outcome = rank.Judge(doc.Outcome, wrongs, done, passed)
	return nil
}

// fakeCase returns the i-th case of the fake backend.
func fakeCase(i, world, sizes int) plan.Requested {
	c := plantest.Collective(world, func(c *plan.Case) {
		c.SKU, c.Backend = fmt.Sprintf("fake-case-%02d", i), "fake"
		b := collective.Of(c)
		b.Placements, b.Modes, b.Sizes = []string{"out_of_place"}, []string{"pipelined"}, nil
		for n := range sizes {
			b.Sizes = append(b.Sizes, 8<<n)
		}
	})
	return plan.Requested{SKU: c.SKU, Disposition: plan.Runnable, Case: c, BudgetSeconds: 60}
}

// fakeShard returns a shard of cases with two ranks each.
func fakeShard(results, scratch string, cases ...plan.Requested) *Shard {
	s := &Shard{
		Cell:  plan.Cell{ID: "fake-cell", SKU: "fake", Backend: "fake", Vendor: "host", Product: "fake", Maturity: "reference"},
		Cases: cases,
		Run: Run{
			RunID: "run-1", RunAttempt: "1", Generator: "cxrun test",
			Environment: func(env, _, found map[string]string) map[string]string { maps.Copy(env, found); return env },
			Screen:      provenance.NewScreen("secret"),
		},
		Families: fakeFamilies(),
		Fits:     func(rank.Facts) error { return nil },
		Launcher: launch.Local{Starter: command.Host{}, Program: []string{os.Args[0], "rank"}, Scratch: scratch},
		Results:  results, Limit: time.Hour,
		Observer: &recorder{},
	}
	for _, q := range cases {
		s.Cell.CaseIDs = append(s.Cell.CaseIDs, q.Case.CaseID)
	}
	return s
}

// withVariable lets ranks of s start with a variable that the shard itself does not have, so
// that tests with different faults can run at once.
func withVariable(s *Shard, name, value string) *Shard {
	l := s.Launcher.(launch.Local)
	l.Program = slices.Concat([]string{"env", name + "=" + value}, l.Program)
	s.Launcher = l
	return s
}

// scratchOf returns where the launcher of s makes scratch directories.
func scratchOf(s *Shard) string {
	if h, ok := s.Launcher.(hanging); ok {
		return h.Scratch
	}
	return s.Launcher.(launch.Local).Scratch
}

// recorder keeps what an observer is told.
type recorder struct {
	lines []string
	ends  []End
}

func (o *recorder) add(format string, args ...any) {
	o.lines = append(o.lines, fmt.Sprintf(format, args...))
}

func (o *recorder) Started(n, total int, c plan.Case, attempt int) {
	o.add("%d/%d start %s attempt %d", n, total, c.CaseID, attempt)
}

func (o *recorder) Ended(n, total int, e End) {
	o.ends = append(o.ends, e)
	head := e.Document.Head()
	o.add("%d/%d %s %s %s", n, total, head.Outcome.Status, head.Identity.CaseID, head.Outcome.Reasons.String())
}

func (o *recorder) Kept(n, total int, c plan.Case, passed bool) {
	o.add("%d/%d kept %s passed %v", n, total, c.CaseID, passed)
}

func (o *recorder) Warn(text string) { o.add("warn %s", text) }

// shardMain runs a shard of the given number of cases in this process.
func shardMain(args []string) int {
	f := flag.NewFlagSet("shard", flag.ExitOnError)
	results := f.String("results", "", "")
	scratch := f.String("scratch", "", "")
	cases := f.Int("cases", 4, "")
	sizes := f.Int("sizes", 4, "")
	tmpfs := f.Int("tmpfs", 0, "")
	smallScratch := f.Int("small-scratch", 0, "")
	_ = f.Parse(args)
	if *tmpfs > 0 { // in a mount namespace of our own
		if err := mountSmall(*results, *tmpfs); err != nil {
			log.Print(err)
			return 4
		}
	}
	if *smallScratch > 0 {
		if err := mountSmall(*scratch, *smallScratch); err != nil {
			log.Print(err)
			return 4
		}
	}
	var list []plan.Requested
	for i := range *cases {
		list = append(list, fakeCase(i, 2, *sizes))
	}
	s := fakeShard(*results, *scratch, list...)
	s.Resume = true
	counts, err := s.Do(context.Background())
	fmt.Println(counts, err)
	for _, e := range readDocs(*results) {
		fmt.Println("doc", e.Head().Identity.CaseID, strings.TrimSpace(e.Head().Outcome.Status+" "+e.Head().Outcome.Reasons.String()))
	}
	switch {
	case err != nil:
		return 3
	case counts.Failed > 0:
		return 1
	default:
		return 0
	}
}

// readDocs returns the documents in dir by name; it panics on anything else.
func readDocs(dir string) []result.Document {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		panic(err)
	}
	var docs []result.Document
	for _, n := range names {
		data, err := os.ReadFile(n)
		if err != nil {
			panic(err)
		}
		d, err := result.Decode(data)
		if err != nil {
			panic(err)
		}
		docs = append(docs, d)
	}
	return docs
}

// byCase returns the documents of dir, which must be valid, one per case.
func byCase(t *testing.T, dir string) map[string]*collective.Document {
	t.Helper()
	out := map[string]*collective.Document{}
	for _, d := range readDocs(dir) {
		require.NoError(t, result.Validate(d))
		id := d.Head().Identity.CaseID
		require.NotContains(t, out, id, "two documents")
		out[id] = d.(*collective.Document)
	}
	return out
}
