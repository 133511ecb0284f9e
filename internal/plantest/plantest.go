// Package plantest plans cases for tests from the shipped definitions.
package plantest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"sync"
	"testing/fstest"

	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/ep"
	_ "github.com/collectivex/collectivex/pkg/families" // plans need them
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/steps"
	"github.com/collectivex/collectivex/pkg/transfer"
)

// Definitions returns the shipped definitions as files in memory, which a test may change.
func Definitions() fstest.MapFS {
	files := fstest.MapFS{}
	err := fs.WalkDir(matrix.FS, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(matrix.FS, path)
		files[path] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		panic(err)
	}
	return files
}

// Shipped reads the shipped definitions again on each call, so that a test may change them.
func Shipped() *catalog.Catalog { return must(catalog.Load(matrix.FS)) }

// Resolve plans the cases that the filters keep, as a matrix that can be written.
func Resolve(cat *catalog.Catalog, f planner.Filters) *plan.Matrix {
	m := must(planner.Resolve(cat, f, planner.Machine{}))
	m.Generator = plan.Generator{Program: "cxgen", Version: "v1", Format: plan.Format}
	return m
}

// IDs returns the ids of requested cases.
func IDs(list []plan.Requested) []string {
	ids := []string{}
	for _, q := range list {
		ids = append(ids, q.Case.CaseID)
	}
	return ids
}

// Find returns the requested case with an id.
func Find(m *plan.Matrix, id string) plan.Case {
	for q := range m.Requested() {
		if q.Case.CaseID == id {
			return q.Case
		}
	}
	panic("no case " + id + " is planned")
}

// EP returns the EP case of the smoke suite at this number of ranks: bf16 in normal mode
// on the host backend. Each change may make anything of it, valid or not; the id follows.
func EP(ranks int, change ...func(*plan.Case)) plan.Case {
	return place(ep.Name, ranks, change)
}

// Collective returns the all_reduce of the smoke suite at this number of ranks: a float
// sum on the host backend. Changes are as in EP.
func Collective(ranks int, change ...func(*plan.Case)) plan.Case {
	return place(collective.Name, ranks, change)
}

// Transfer returns the smallest transfer of the kv-transfer suite, over shared memory.
// Changes are as in EP.
func Transfer(change ...func(*plan.Case)) plan.Case {
	only := planner.Filters{Cases: []string{"local-host-kv-tiny-shm-xfer-ep2-paged-bf16"}}
	return changed(first(transfer.Name, must(planner.Resolve(shipped(), only, planner.Machine{}))), change)
}

// Cache returns a change that makes a transfer move another cache of the definitions.
func Cache(name string) func(*plan.Case) {
	return func(c *plan.Case) {
		cache := transfer.CacheOf(shipped(), name)
		t, of := transfer.Of(c), transfer.New(cache, &transfer.Sampling{})
		c.Precision, t.Workload, t.Seed, t.Layers, t.Entries = cache.Precision, of.Workload, of.Seed, of.Layers, of.Entries
	}
}

// Copy returns a test of copies on a backend, with the first kind of host memory that the
// backend has. Changes are as in EP.
func Copy(backend, test string, change ...func(*plan.Case)) plan.Case {
	return copyOn(backend, test, copies.TestOf(test).Ranks, false, change)
}

// CopyOn returns a test of all devices of a world or, if it has fewer, of each device or pair in turn. See Copy.
func CopyOn(backend, test string, world int, change ...func(*plan.Case)) plan.Case {
	return copyOn(backend, test, world, copies.TestOf(test).Ranks != copies.All, change)
}

func copyOn(backend, test string, world int, each bool, change []func(*plan.Case)) plan.Case {
	be, samples := shipped().Backend(backend), catalog.SamplingOf[copies.Sampling](shipped().SamplingProfile(suite))
	b := copies.New(test, copies.MemoriesOf(test, catalog.BackendOf[copies.Backend](be).HostMemory)[0], samples)
	b.Submission, b.Sizes, b.Streams, b.Each = copies.Loop, []int64{4096, 1 << 20}, []int{1}, each
	if copies.TestOf(test).Swap { // words and odd bytes, one block and several; the last point is excluded
		b.SetGrid(&copies.Grid{BlockBytes: []catalog.Bytes{129, 4096}, NumBlocks: []int{1, 5, 32}, MaxPayload: 64 << 10}, copies.Random)
	}
	c := plan.Case{Family: copies.Name, Sampling: suite, Contract: copies.ContractOf(test), Block: b}
	m := planner.Machine{}
	if backend != "host" {
		m.GPUs = &planner.GPUs{Vendor: be.Vendors[0], Product: "h200", Arch: "sm90", Transport: "nvlink", Count: max(2, world), Backends: []string{backend}}
	}
	d := planner.Direct{Suite: suite, Backend: backend, World: world, Repeats: 1, Cases: []plan.Case{c}}
	return changed(first(c.Family, must(d.Resolve(shipped(), m))), change)
}

// Overlap returns a small case of a form of overlap on a backend, over a world of ranks and two
// sizes, with few samples. Changes are as in EP.
func Overlap(backend, form string, world int, change ...func(*plan.Case)) plan.Case {
	be := shipped().Backend(backend)
	b := overlap.New(form, "all_gather", catalog.SamplingOf[overlap.Sampling](shipped().SamplingProfile(suite)))
	b.Hidden, b.Compute, b.Sizes = 32, catalog.BackendOf[overlap.Backend](be).Computes[0], []int64{int64(world) * 1024, int64(world) * 8192}
	if form == overlap.Beside {
		b.Products, b.Collectives = 3, 2
	}
	c := plan.Case{Family: overlap.Name, Precision: catalog.BackendOf[overlap.Backend](be).DTypes[0], Sampling: suite, Contract: overlap.Contract, Block: b}
	for _, f := range change {
		f(&c)
	}
	m := planner.Machine{}
	if backend != "host" {
		m.GPUs = &planner.GPUs{Vendor: be.Vendors[0], Product: "h200", Arch: "sm90", Transport: "nvlink", Count: world, Backends: []string{backend}}
	}
	d := planner.Direct{Suite: suite, Backend: backend, World: world, Repeats: 1, Cases: []plan.Case{c}}
	return changed(first(c.Family, must(d.Resolve(shipped(), m))), nil)
}

// Schedules returns the cases of suite schedule-host, on the host backend: one for each schedule that
// a world of ranks allows, with rows of the given width if the schedule has rows. Changes are as in
// EP.
func Schedules(ranks, width int, change ...func(*plan.Case)) []plan.Case {
	var all []plan.Case
	for q := range asked(scheduleSuite).Requested() {
		if q.Case.World != scheduleRanks {
			continue
		}
		c := copied(&q.Case)
		if steps.Of(&c).Width > 0 {
			steps.Of(&c).Width = width
		}
		m, err := planner.Direct{Suite: scheduleSuite, Backend: c.Backend, World: ranks, Repeats: 1, Cases: []plan.Case{c}}.Resolve(shipped(), planner.Machine{})
		if errors.Is(err, planner.ErrCannot) {
			continue
		}
		all = append(all, changed(first(c.Family, must(m, err)), change))
	}
	return all
}

// Planned returns a schedule case by the plan in a file, and the content of the file by its digest.
// Changes are as in EP.
func Planned(c plan.Case, file string, content []byte, change ...func(*plan.Case)) (plan.Case, map[string][]byte) {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	planned := copied(&c)
	b := steps.Of(&planned)
	b.Algorithm, b.PlanFile, b.PlanSHA256, b.Width, b.Segments = file, file, digest, 0, 0
	m, err := planner.Direct{Suite: scheduleSuite, Backend: c.Backend, World: c.World, Repeats: 1, Cases: []plan.Case{planned}}.Resolve(shipped(), planner.Machine{})
	return changed(first(c.Family, must(m, err)), change), map[string][]byte{digest: content}
}

// Simulations returns the cases of suite schedule-simulated. The first is the ring all_reduce of
// eight ranks. Changes are as in EP.
func Simulations(change ...func(*plan.Case)) []plan.Case {
	var all []plan.Case
	for q := range asked("schedule-simulated").Requested() {
		all = append(all, changed(copied(&q.Case), change))
	}
	return all
}

// Twins returns an all_reduce by a ring of eight ranks as a case that is measured, and as one that
// is simulated.
func Twins() (measured, simulated plan.Case) {
	for _, c := range Schedules(8, 2) {
		if steps.Of(&c).Op == "all_reduce" && steps.Of(&c).Algorithm == "ring" {
			return c, Simulation()
		}
	}
	panic("no ring all_reduce is planned")
}

// Simulation returns the first of Simulations.
func Simulation(change ...func(*plan.Case)) plan.Case { return Simulations(change...)[0] }

// Few makes a schedule case one with few samples, at a size that does not divide evenly and a
// larger one.
func Few(c *plan.Case) {
	steps.Of(c).Sizes = []int64{1004, 20_000}
	steps.Of(c).Measure = collective.Counts{Warmup: 1, Iterations: 2, Trials: 1, Aggregate: 1, Launches: 1, Checks: 4}
}

const (
	suite         = "smoke"
	scheduleSuite = "schedule-host"
	// scheduleRanks is a world of that suite that every schedule allows.
	scheduleRanks = 4
)

var shipped = sync.OnceValue(Shipped)

// place has the planner place the suite's first case of a family on the local platform.
func place(family plan.Family, ranks int, change []func(*plan.Case)) plan.Case {
	c := first(family, asked(suite))
	if e := ep.Of(&c); e != nil {
		e.EPSize = ranks
	}
	d := planner.Direct{Suite: suite, Backend: c.Backend, World: ranks, Repeats: 1, Cases: []plan.Case{c}}
	return changed(first(family, must(d.Resolve(shipped(), planner.Machine{}))), change)
}

// asked plans a suite on the local platform.
func asked(suite string) *plan.Matrix {
	only := planner.Filters{Only: planner.Only{planner.FilterSuite: {suite}}}
	return must(planner.Resolve(shipped(), only, planner.Machine{}))
}

// changed returns the case with the changes and the id that follows.
func changed(c plan.Case, change []func(*plan.Case)) plan.Case {
	for _, f := range change {
		f(&c)
	}
	if c.Block != nil {
		c.CaseID = c.ID()
	}
	return c
}

// first returns a deep copy of the first case of a family, since the cases of a plan share equal values.
func first(family plan.Family, m *plan.Matrix) plan.Case {
	for q := range m.Requested() {
		if q.Case.Family == family {
			return copied(&q.Case)
		}
	}
	panic("no case of family " + string(family) + " is planned")
}

func copied(from *plan.Case) (c plan.Case) {
	if err := json.Unmarshal(must(json.Marshal(from)), &c); err != nil {
		panic(err)
	}
	return c
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
