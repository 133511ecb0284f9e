// Package python is the expert-parallel backends whose libraries have a Python interface
// alone. One adapter in Go drives all of them: it owns the stream, the inputs and the memory
// that rows are staged in, and casts rows where a library leaves that to its caller. A small
// module in adapters calls each library; backends.go says what each realises.
//
// An adapter module has the functions
//
//	open(json) → json      imports the library; the versions of what was imported
//	prepare(json) → json   makes the buffers of a case; where rows will arrive
//	bind(x, scales, expert, weight, tokens, most)   most tokens of any rank
//	dispatch(), cached()   the latter with the layout of the dispatch after the bind
//	combine(staged) → out  of the rows that arrived where staged is 0
//	values_at(), scales_at(), counts_at(), ids_at(), weights_at()   addresses, 0 for none
//	rows_of()              rows that arrived; −1 where only the device knows
//	count(expert)          rows of a local expert, where the host knows
//	staging()              where staged rows belong, 0 for memory of Go
//	close()
//
// whose arguments and results are integers unless they are JSON; see geometry.
package python

import (
	"context"
	"embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/pyhost"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

//go:embed adapters/*.py
var adapters embed.FS

// Open returns the opener of a backend. The rank has locked its OS thread and drives the
// device of its local rank; its process is used for this library alone.
func Open(name string) rank.Opener {
	b := libraries[name]
	b.name = name
	return func(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
		gpu, err := gpurank.Open(b.platform, s)
		if coded, ok := errors.AsType[*rank.Error](err); ok && b.orHIP && coded.Reason.Code == result.ReasonNoLibrary {
			var failed error
			if gpu, failed = gpurank.Open("hip", s); failed != nil {
				failed = errors.Join(err, failed)
			}
			err = failed
		}
		if err != nil {
			return nil, err
		}
		a := &adapter{library: b, gpu: gpu, session: s, ctx: ctx}
		if err := a.open(ctx, c); err != nil {
			return nil, errors.Join(err, gpu.Close())
		}
		facts := gpu.Facts(rank.Library{Kind: name, Version: a.versions.Library})
		facts.Framework = "torch " + a.versions.Torch
		return gpu.Around(runner.NewRunner(gpu, a.stream, a, facts)), nil
	}
}

// versions are those of what a module has imported.
type versions struct {
	Torch   string `json:"torch"`
	Library string `json:"library"`
}

// module is an adapter module and its functions.
type module struct {
	name string

	prepare, bind, dispatch, cached, combine, count, staging, close *pyhost.Function

	valuesAt, scalesAt, countsAt, idsAt, weightsAt, rowsOf *pyhost.Function
}

// adapter is one rank's end.
type adapter struct {
	library
	gpu      *gpurank.GPU
	stream   accel.Stream
	python   *pyhost.Interpreter
	modules  []*module // that were opened; a library of two interfaces has two
	versions versions
	kernels  *kernels

	// Of a case:
	session  *rank.Session
	ctx      context.Context // ends every wait; callbacks of Python have no other way to get it
	gathers  int             // in this session
	d        runner.Description
	mode     mode
	call     *module
	memory   *memory
	geometry geometry
	problem  *runner.Problem
}

var _ runner.CachedDispatcher = (*adapter)(nil)

// given is what a module's open takes.
type given struct {
	Backend   string  `json:"backend"`
	Rank      int     `json:"rank"`
	World     int     `json:"world"`
	LocalRank int     `json:"local_rank"`
	Nodes     int     `json:"nodes"`
	Stream    uintptr `json:"stream"`
}

// open starts Python and has it import the library.
func (a *adapter) open(ctx context.Context, c plan.Case) (err error) {
	_, m, err := a.describe(c, a.gpu.Info(), "")
	if err != nil { // before the seconds that an import takes
		return err
	}
	if a.stream, err = a.gpu.NewStream(); err != nil {
		return rank.Coded(result.ReasonDevice, err)
	}
	e, err := pyhost.Find(ctx, command.Host{}, nil)
	if err != nil {
		return rank.Coded(result.ReasonNoLibrary, err)
	}
	if a.python, err = pyhost.Start(e); err != nil {
		return rank.Coded(result.ReasonNoLibrary, err)
	}
	if err := a.python.Define("rank", "gather_bytes", a.gather); err != nil {
		return a.coded(err)
	}
	if _, err := a.load("rank"); err != nil {
		return a.coded(err)
	}
	return a.use(m.module, c)
}

// use makes a module the one that is called. It opens it, unless that was done before.
func (a *adapter) use(name string, c plan.Case) error {
	if i := slices.IndexFunc(a.modules, func(m *module) bool { return m.name == name }); i >= 0 {
		a.call = a.modules[i]
		return nil
	}
	loaded, err := a.load(name)
	if err != nil {
		return a.coded(err)
	}
	m, open, err := functionsOf(loaded)
	if err != nil {
		return a.coded(err)
	}
	text, err := a.text(open, given{a.name, a.session.Rank, a.session.World, a.session.LocalRank, c.Nodes, a.stream.Handle()})
	if err != nil {
		if e, ok := errors.AsType[*pyhost.Exception](err); ok && (e.Type == "ModuleNotFoundError" || e.Type == "ImportError") {
			return &rank.Error{Reason: result.ReasonNoLibrary.With("%s", e.Type), Err: fmt.Errorf("%w: install it in the environment of python3 on PATH; cxrun doctor shows which that is", err)}
		}
		return a.coded(err)
	}
	m.name = name
	a.call, a.modules = m, append(a.modules, m)
	return json.Unmarshal([]byte(text), &a.versions)
}

func (a *adapter) load(name string) (*pyhost.Module, error) {
	source, err := adapters.ReadFile("adapters/" + name + ".py")
	if err != nil {
		return nil, err
	}
	return a.python.Load(name, string(source))
}

// functionsOf finds the functions of an adapter module; open is called once.
func functionsOf(m *pyhost.Module) (f *module, open *pyhost.Function, err error) {
	f = &module{}
	for name, at := range map[string]**pyhost.Function{
		"open": &open, "prepare": &f.prepare, "bind": &f.bind, "dispatch": &f.dispatch, "cached": &f.cached, "combine": &f.combine,
		"count": &f.count, "staging": &f.staging, "close": &f.close, "values_at": &f.valuesAt, "scales_at": &f.scalesAt,
		"counts_at": &f.countsAt, "ids_at": &f.idsAt, "weights_at": &f.weightsAt, "rows_of": &f.rowsOf,
	} {
		if *at, err = m.Function(name); err != nil {
			return nil, nil, err
		}
	}
	return f, open, nil
}

// text calls a function that takes and returns JSON.
func (a *adapter) text(f *pyhost.Function, arg any) (string, error) {
	raw, err := json.Marshal(arg)
	if err != nil {
		return "", err
	}
	return f.Text(string(raw))
}

// coded gives an exception of the library its code, with its type. The code of a callback
// that failed goes first: it is why the library raised.
func (a *adapter) coded(err error) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*rank.Error](err); known {
		return err
	}
	if e, ok := errors.AsType[*pyhost.Exception](err); ok && e.Unwrap() == nil {
		return &rank.Error{Reason: result.ReasonLibrary.With("%s %s", a.name, e.Type), Err: err}
	}
	return err
}

// gather is gather_bytes of adapters/rank.py.
func (a *adapter) gather(value []byte) ([]byte, error) {
	a.gathers++
	all, err := rank.Gather(a.ctx, a.session, fmt.Sprintf("python-%04d", a.gathers), value)
	var joined []byte
	for _, v := range all {
		joined = binary.LittleEndian.AppendUint64(joined, uint64(len(v)))
		joined = append(joined, v...)
	}
	return joined, err
}

// Describe implements runner.Adapter.
func (a *adapter) Describe(c plan.Case) (runner.Description, error) {
	d, _, err := a.describe(c, a.gpu.Info(), a.versions.Library)
	return d, err
}

// Err implements runner.Adapter: a library that waits for a peer gives up by itself, or the
// shard ends its process.
func (a *adapter) Err() error { return nil }

// Close implements runner.Adapter. The interpreter stays; see package pyhost.
func (a *adapter) Close() error {
	var err error
	for _, m := range a.modules {
		_, failed := m.close.Call()
		err = errors.Join(err, a.coded(failed))
	}
	err = errors.Join(err, a.python.Flush())
	if a.memory != nil {
		err = errors.Join(err, a.memory.free())
	}
	if a.kernels != nil {
		err = errors.Join(err, a.kernels.module.Close())
	}
	return err
}
