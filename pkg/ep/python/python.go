// Package python is the expert-parallel backends whose libraries have only a Python interface.
// One Go adapter drives all of them: it owns the stream, the inputs and the memory for staged
// rows, and casts rows if a library leaves that to its caller. A small module in adapters
// calls each library; backends.go describes the libraries.
//
// An adapter module has the functions
//
//	open(json) → json      imports the library; returns the versions of what it imported
//	prepare(json) → json   creates the buffers of a case; returns where rows will arrive
//	bind(x, scales, expert, weight, tokens, most)   most: maximum tokens of any rank
//	input(x)               adds another input of the bound problem; the first is bind's
//	choose(n)              makes input n the bound rows
//	dispatch()             sends the bound rows
//	cached()               the same with the layout of the first dispatch after the bind
//	combine(staged) → out  staged 0: the received rows in place
//	values_at(), scales_at(), counts_at(), experts_at(), weights_at()   addresses, 0 for none
//	rows_of()              received rows; −1 where only the device knows. With counts_at, rows in memory
//	count(expert)          rows of a local expert, where the host knows
//	capturing(n)           before operations are captured into a graph (1), and after (0)
//	staging()              where to write staged rows, 0 for memory of Go
//	close()
//
// whose arguments and results are integers or JSON; see geometry.
package python

import (
	"context"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/pyhost"
	"github.com/collectivex/collectivex/pkg/pyrank"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

//go:embed adapters/*.py
var embedded embed.FS

// adapters holds the sources of the adapters; tests replace it to plant mistakes.
var adapters fs.FS = embedded

// opener returns the opener of a backend. The rank has locked its OS thread and drives the
// device of its local rank; its process is used for this library alone.
func (l library) opener(b backend.Backend) rank.Opener {
	return func(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
		gpu, err := l.open(s)
		if err != nil {
			return nil, err
		}
		a := &adapter{library: l, gpu: gpu, device: accel.NewScope(gpu), session: s, ctx: ctx}
		if err := a.open(ctx, c, &b); err != nil {
			return nil, errors.Join(err, gpu.Close())
		}
		facts := gpu.Facts(rank.Library{Kind: l.name, Version: a.versions.Library})
		facts.Framework = "torch " + a.versions.Torch
		return gpu.Around(runner.NewRunner(gpu, a.stream, a, facts)), nil
	}
}

// versions holds the versions of the packages that a module imported.
type versions struct {
	Torch   string   `json:"torch"`
	Library string   `json:"library"`
	Lacks   []string `json:"lacks"` // kernels of modes that the library does not have
}

// functions holds the functions of an adapter module.
type functions struct {
	Open, Prepare, Bind, Input, Choose, Dispatch, Cached, Combine, Count, Staging, Close *pyhost.Function
	ValuesAt, ScalesAt, CountsAt, ExpertsAt, WeightsAt, RowsOf, Capturing                *pyhost.Function
}

// module is an adapter module.
type module struct {
	name string
	functions
}

// adapter is the runner.Adapter of one rank.
type adapter struct {
	library
	gpu      *gpurank.GPU
	stream   accel.Stream
	python   *pyrank.Library
	modules  []*module // opened so far; a library with two interfaces has two
	versions versions
	device   *accel.Scope   // of kernels and meeting
	meeting  *gpurank.Group // where the ranks align at the begin of graphs; nil until a case needs it
	kernels  *kernels       // nil until a case needs them

	// Of a case:
	session  *rank.Session
	ctx      context.Context // ends every wait; stored because Python callbacks cannot pass it
	gathers  int             // in this session
	d        runner.Description
	mode     mode
	call     *module
	memory   *memory
	geometry geometry
	problem  *runner.Problem
}

var (
	_ runner.CachedDispatcher = (*adapter)(nil)
	_ runner.Chooser          = (*adapter)(nil)
	_ runner.CaptureObserver  = (*adapter)(nil)
	_ runner.Tuned            = (*adapter)(nil)
)

// given is the argument of a module's open, as JSON.
type given struct {
	Backend   string  `json:"backend"`
	Rank      int     `json:"rank"`
	World     int     `json:"world"`
	LocalRank int     `json:"local_rank"`
	Nodes     int     `json:"nodes"`
	Across    bool    `json:"across"` // scale-up domains
	Stream    uintptr `json:"stream"`
}

// open starts Python and makes it import the library.
func (a *adapter) open(ctx context.Context, c plan.Case, b *backend.Backend) (err error) {
	_, m, err := a.describe(c, a.gpu.Info(), versions{})
	if err != nil { // fail before the import, which takes seconds
		return err
	}
	if a.stream, err = a.gpu.NewStream(); err != nil {
		return rank.Coded(result.ReasonDevice, err)
	}
	if a.python, err = pyrank.Open(ctx, b, adapters); err != nil {
		return err
	}
	if err := a.python.Define("rank", "gather_bytes", a.gather); err != nil {
		return a.python.Coded(err)
	}
	if err := a.python.Load("rank", "rank", &struct{}{}); err != nil {
		return err
	}
	return a.use(m.module, c)
}

// use selects a module for the following calls, and opens it if necessary.
func (a *adapter) use(name string, c plan.Case) error {
	if i := slices.IndexFunc(a.modules, func(m *module) bool { return m.name == name }); i >= 0 {
		a.call = a.modules[i]
		return nil
	}
	m := &module{name: name}
	if err := a.python.Load(name, name, &m.functions); err != nil {
		return err
	}
	if err := a.python.JSON(m.Open, given{a.name, a.session.Rank, a.session.World, a.session.LocalRank, c.Nodes, c.Scope == vocab.ScopeOut, a.stream.Handle()}, &a.versions); err != nil {
		return err
	}
	a.call, a.modules = m, append(a.modules, m)
	return nil
}

// meet joins the ranks in a communicator of the NCCL or RCCL that torch has loaded.
func (a *adapter) meet(ctx context.Context) error {
	kind := nccl.NCCL
	if strings.HasPrefix(a.gpu.Info().Arch, "gfx") {
		kind = nccl.RCCL
	}
	l, err := nccl.Open(kind)
	if err != nil {
		return gpurank.NCCLError(err)
	}
	a.meeting, err = gpurank.JoinGroup(ctx, a.session, l, a.gpu, "python-graphs", nccl.Config{NVLinkCentric: true, OneGraph: true})
	if err == nil {
		a.device.Defer(a.meeting.Close)
	}
	return err
}

func (a *adapter) Align() error { return a.meeting.Align(a.stream) }

// Capturing implements runner.CaptureObserver.
func (a *adapter) Capturing(begins bool) error {
	n := int64(0)
	if begins {
		n = 1
	}
	_, err := a.python.Call(a.call.Capturing, n)
	return err
}

// gather implements gather_bytes of adapters/rank.py.
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

func (a *adapter) Describe(c plan.Case) (runner.Description, error) {
	d, _, err := a.describe(c, a.gpu.Info(), a.versions)
	return d, err
}

// Err implements runner.Adapter. It is always nil: a library that waits for a peer times out, or
// the shard ends its process.
func (a *adapter) Err() error { return nil }

// Close implements runner.Adapter. The interpreter keeps running; see package pyhost.
func (a *adapter) Close() error {
	var err error
	for _, m := range a.modules {
		_, failed := a.python.Call(m.Close)
		err = errors.Join(err, failed)
	}
	err = errors.Join(err, a.python.Flush())
	if a.memory != nil {
		err = errors.Join(err, a.memory.device.Close())
	}
	return errors.Join(err, a.device.Close())
}
