package runner

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Kinds of faults that change the input of this rank's library; the library's own work is
// genuine.
const (
	FaultFlipBit     = "flip-bit"     // one bit of one activation
	FaultSwapTokens  = "swap-tokens"  // the rows of two tokens
	FaultDropToken   = "drop-token"   // a token is sent nowhere
	FaultDoubleToken = "double-token" // a token is sent twice, in the place of another
	FaultWrongWeight = "wrong-weight" // one routing weight
	FaultWrongExpert = "wrong-expert" // one expert of a token
	FaultZeroPayload = "zero-payload" // all activations are zero
	FaultNoSend      = "no-send"      // receivers keep the payload of an earlier dispatch
	FaultNoWeights   = "no-weights"   // receivers keep the weights of an earlier dispatch
	FaultWriteInput  = "write-input"  // dispatch overwrites an activation that it has sent
)

// Kinds of faults in a call itself. A skipped call returns the result of the previous call. The
// library is not called, so the fault must be injected into all ranks; otherwise its peers wait for
// this rank.
const (
	FaultNoDispatch = "no-dispatch" // dispatch is skipped
	FaultNoCombine  = "no-combine"  // combine is skipped
	FaultStale      = "stale"       // combine returns the output of the pair before
	FaultOnes       = "ones"        // combine returns ones
)

// Kinds of faults that keep results: a call whose input equals that of an earlier call of the binding
// does nothing, and returns where that call had left its result. In graphs, inputs at one address
// are equal. They too must be injected into all ranks.
const (
	FaultCachedDispatch = "cached-dispatch"
	FaultCachedCombine  = "cached-combine" // of rows that Stage staged
)

// Kinds of faults in the library's arithmetic, from the start of the case to its end or, in sums, in every
// N-th combine. Only a FaultInjector has them.
const (
	FaultBF16Sum       = "bf16-sum"       // combine rounds each partial sum to bf16
	FaultReversedSum   = "reversed-sum"   // combine adds in the opposite order
	FaultTruncatedSum  = "truncated-sum"  // combine truncates where it has to round
	FaultFusedSum      = "fused-sum"      // a weighted combine fuses multiplication and addition, as it may
	FaultNeighborScale = "neighbor-scale" // blocks have the scale of the previous block
	FaultPeriodicScale = "periodic-scale" // tokens have the scales of the token 257 places earlier
)

// FaultNoReplay skips launches of graphs. It too must be injected into all ranks; otherwise the
// peers of a rank wait for it.
const FaultNoReplay = "no-replay"

// Points at which a data fault begins, besides rank.FaultAtStart. "dispatch-N" and "combine-N" begin
// at the N-th such call after each bind. "dispatch-every-N" and "combine-every-N" strike at the N-th,
// 2N-th, … call of the case, and "replay-N" at the N-th launch of the case.
const (
	faultAtTimed    = "timed"   // after the first oracle, until the end
	faultAtChain    = "chain"   // only in the chains
	faultInWindows  = "windows" // in the samples of fresh-entry windows, except the last of each
	faultAtDispatch = "dispatch-"
	faultAtCombine  = "combine-"
	faultAtReplay   = "replay-"
	faultEvery      = "every-"
)

var (
	dispatchFaults = []string{
		FaultFlipBit, FaultSwapTokens, FaultDropToken, FaultDoubleToken, FaultWrongWeight, FaultWrongExpert,
		FaultZeroPayload, FaultNoSend, FaultNoWeights, FaultWriteInput, FaultNoDispatch,
	}
	combineFaults    = []string{FaultNoCombine, FaultStale, FaultOnes}
	replayFaults     = []string{FaultNoReplay}
	cachingFaults    = []string{FaultCachedDispatch, FaultCachedCombine} // in both timing modes
	sumFaults        = []string{FaultBF16Sum, FaultReversedSum, FaultTruncatedSum, FaultFusedSum}
	arithmeticFaults = append(slices.Clone(sumFaults), FaultNeighborScale, FaultPeriodicScale)
)

// FaultKinds lists the kinds of data faults of EP cases.
func FaultKinds() []string {
	return slices.Concat(dispatchFaults, combineFaults, cachingFaults, replayFaults, arithmeticFaults)
}

// Measurer measures dispatch and combine.
var Measurer = rank.Measurer{Family: ep.Name, Assemble: Assemble, Faults: FaultKinds(), Points: true}

// faulty is an adapter with an injected fault.
type faulty struct {
	Adapter
	m         *run
	kind      string
	at        string
	from      int       // N of "dispatch-N" or "combine-N"; else 0
	every     int       // N of "dispatch-every-N" or "combine-every-N"; else 0
	active    bool      // while the phase named by at runs
	calls     int       // of the faulty operation, since the case began
	bindCalls int       // of it since the last bind
	handle    Handle    // of the last dispatch since then
	out       accel.Ptr // of the last combine since then
	bound     *disguise
	copies    map[*Problem]*disguise
	cache
}

// cache is the state of a fault that keeps results, since the last bind.
type cache struct {
	p       *Problem // given to the library as it is
	known   map[string]bool
	current string // input of the last dispatch
	staged  bool   // the last rows were staged by Stage
}

// input identifies the input of the next dispatch by its values, or in graphs by its address.
func (f *faulty) input() (string, error) {
	p := f.p
	if f.m.d.Replayed {
		return strconv.FormatUint(uint64(p.X), 16), nil
	}
	x, err := f.read(p.X, 2*p.Tokens*p.Hidden)
	if err != nil {
		return "", err
	}
	weights, err := f.read(p.Weight, 4*p.Tokens*p.TopK)
	return string(x) + string(weights), err
}

// cachedDispatch is dispatch of a fault that keeps results.
func (f *faulty) cachedDispatch(send func() (Handle, error)) (h Handle, err error) {
	if f.current, err = f.input(); err != nil {
		return nil, err
	}
	if f.kind == FaultCachedDispatch {
		if f.active && f.known[f.current] {
			return f.handle, nil
		}
		f.known[f.current] = true
	}
	f.handle, err = send()
	return f.handle, err
}

// cachedCombine is Combine of a fault that keeps results.
func (f *faulty) cachedCombine(h Handle, s Staged) (out accel.Ptr, err error) {
	if f.kind == FaultCachedCombine && f.staged {
		if f.active && f.known[f.current] {
			return f.out, nil
		}
		f.known[f.current] = true
	}
	f.out, err = f.Adapter.Combine(h, s)
	return f.out, err
}

// caches reports whether the fault keeps results.
func (f *faulty) caches() bool { return slices.Contains(cachingFaults, f.kind) }

// Stage implements Adapter.
func (f *faulty) Stage(h Handle) (Staged, error) {
	f.staged = true
	return f.Adapter.Stage(h)
}

// StageRows implements Adapter.
func (f *faulty) StageRows(h Handle, fill func(to []Rows) error) (Staged, error) {
	f.staged = false
	return f.Adapter.StageRows(h, fill)
}

// Choose implements Chooser.
func (f *faulty) Choose() error {
	if c, ok := f.Adapter.(Chooser); ok {
		return c.Choose()
	}
	return nil
}

// Align implements Capturer. Only adapters that can be captured are asked.
func (f *faulty) Align() error { return f.Adapter.(Capturer).Align() }

// Capturing implements CaptureObserver.
func (f *faulty) Capturing(begins bool) error {
	if o, ok := f.Adapter.(CaptureObserver); ok {
		return o.Capturing(begins)
	}
	return nil
}

// disguise is a copy of a problem in its own buffers, which the fault corrupts.
type disguise struct {
	honest   *Problem
	given    Problem
	previous []byte // last output, for FaultStale
}

// injectArithmetic begins the arithmetic fault that the session names for this rank, or ends the
// fault of the previous case.
func (m *run) injectArithmetic() error {
	injector, able := m.adapter.(FaultInjector)
	fault := ""
	for _, kind := range arithmeticFaults {
		at, ok := m.Fault(kind)
		switch {
		case !ok:
		case !able:
			return rank.RefusedFault(kind, "backend %s cannot inject it", m.c.Backend)
		case inTurn(kind, at): // see injected
			if err := injector.InjectFault(kind, m.d); err != nil {
				return rank.RefusedFault(kind, "%w", err)
			}
		case at != rank.FaultAtStart:
			return rank.RefusedFault(kind, "it cannot begin at %q", at)
		default:
			fault = kind
		}
	}
	if !able {
		return nil
	}
	if err := injector.InjectFault(fault, m.d); err != nil {
		return rank.RefusedFault(fault, "%w", err)
	}
	return nil
}

// inTurn reports whether an arithmetic fault is in every N-th combine alone.
func inTurn(kind, at string) bool {
	return slices.Contains(sumFaults, kind) && strings.HasPrefix(at, faultAtCombine+faultEvery)
}

// injected returns the case's adapter with the fault that the session names for this rank, or nil.
func injected(m *run) (*faulty, error) {
	for _, kind := range FaultKinds() {
		at, ok := m.Fault(kind)
		if !ok || slices.Contains(arithmeticFaults, kind) && !inTurn(kind, at) {
			continue
		}
		if at == faultAtChain && (kind == FaultWrongExpert || kind == FaultDropToken) &&
			ep.Of(&m.c).Mode == ep.ModeLowLatency && m.c.Contract == ep.ContractCachedLayout {
			return nil, rank.RefusedFault(kind, "at %q, a cached low-latency dispatch sends rows by its layout, not by the experts", at)
		}
		f := &faulty{Adapter: m.adapter, m: m, kind: kind, at: at, copies: map[*Problem]*disguise{}}
		if !f.caches() && f.inAdapter() == (ep.Of(&m.c).TimingMode == vocab.Graph) {
			return nil, rank.RefusedFault(kind, "in timing mode graph only %v apply; other kinds need timing mode eager", slices.Concat(replayFaults, cachingFaults))
		}
		if slices.Contains([]string{rank.FaultAtStart, faultAtTimed, faultAtChain, faultInWindows}, at) {
			return f, nil
		}
		if f.caches() {
			return nil, rank.RefusedFault(kind, "it cannot begin at %q", at)
		}
		call := faultAtDispatch
		if f.inCombine() {
			call = faultAtCombine
		} else if !f.inAdapter() {
			call = faultAtReplay
		}
		number, found := strings.CutPrefix(at, call)
		number, inTurn := strings.CutPrefix(number, faultEvery)
		n, err := strconv.Atoi(number)
		switch {
		case !found || err != nil || n < 1:
			return nil, rank.RefusedFault(kind, "it cannot begin at %q", at)
		case inTurn:
			f.every = n
		default:
			f.from = n
		}
		return f, nil
	}
	return nil, nil
}

// inAdapter reports whether the fault is in an operation of the adapter, not in graph launches.
func (f *faulty) inAdapter() bool { return f != nil && !slices.Contains(replayFaults, f.kind) }

// skipsReplay reports whether to skip a launch.
func (f *faulty) skipsReplay() bool {
	if f == nil || f.kind != FaultNoReplay {
		return false
	}
	f.count()
	return f.strikes()
}

func (f *faulty) inCombine() bool {
	return slices.Contains(combineFaults, f.kind) || slices.Contains(sumFaults, f.kind)
}

// count counts a call of the faulty operation.
func (f *faulty) count() {
	f.calls++
	f.bindCalls++
}

// strikes reports whether the fault applies to the call that was counted last.
func (f *faulty) strikes() bool {
	switch {
	case f.every > 0:
		return f.calls%f.every == 0
	case f.from > 0:
		return f.bindCalls >= f.from
	default:
		return f.active
	}
}

// enter begins the fault if it begins at point.
func (f *faulty) enter(point string) {
	if f != nil && f.at == point {
		f.active = true
	}
}

// sample begins or ends a fault that strikes all samples of a window but the last.
func (f *faulty) sample(last bool) {
	if last {
		f.leave(faultInWindows)
	} else {
		f.enter(faultInWindows)
	}
}

// leave ends the fault if it began at point.
func (f *faulty) leave(point string) {
	if f != nil && f.at == point {
		f.active = false
	}
}

// Bind implements Adapter: the library gets the disguised problem.
func (f *faulty) Bind(p *Problem) error {
	if f.caches() {
		f.cache = cache{p: p, known: map[string]bool{}}
		return f.Adapter.Bind(p)
	}
	d, ok := f.copies[p]
	if !ok {
		var err error
		if d, err = f.disguise(p); err != nil {
			return err
		}
		f.copies[p] = d
	}
	f.bound, f.handle, f.out, f.bindCalls = d, nil, 0, 0
	if err := f.give(f.active && !f.inCombine()); err != nil { // a library may read the routing during Bind
		return err
	}
	return f.Adapter.Bind(&d.given)
}

func (f *faulty) Dispatch() (Handle, error) { return f.dispatch(f.Adapter.Dispatch) }

func (f *faulty) DispatchCached(h Handle) (Handle, error) {
	return f.dispatch(func() (Handle, error) { return f.Adapter.(CachedDispatcher).DispatchCached(h) })
}

func (f *faulty) dispatch(send func() (Handle, error)) (h Handle, err error) {
	if f.caches() {
		return f.cachedDispatch(send)
	}
	strikes := false
	if !f.inCombine() {
		f.count()
		strikes = f.strikes()
	}
	if strikes && f.kind == FaultNoDispatch && f.handle != nil {
		return f.handle, nil
	}
	if !strikes || f.kind != FaultNoSend {
		if err := f.give(strikes); err != nil {
			return nil, err
		}
	}
	if f.handle, err = send(); err == nil && strikes && f.kind == FaultWriteInput && f.bound.honest.Tokens > 0 {
		err = f.write(f.bound.honest.X, []byte{0x55})
	}
	return f.handle, err
}

func (f *faulty) Combine(h Handle, s Staged) (out accel.Ptr, err error) {
	if f.caches() {
		return f.cachedCombine(h, s)
	}
	strikes := false
	if f.inCombine() {
		f.count()
		strikes = f.strikes()
	}
	if strikes && f.kind == FaultNoCombine && f.out != 0 {
		return f.out, nil
	}
	if slices.Contains(sumFaults, f.kind) {
		kind := ""
		if strikes {
			kind = f.kind
		}
		if err := f.Adapter.(FaultInjector).InjectFault(kind, f.m.d); err != nil {
			return 0, err
		}
	}
	if out, err = f.Adapter.Combine(h, s); err != nil {
		return 0, err
	}
	f.out = out
	size := 2 * f.bound.given.Tokens * f.bound.given.Hidden
	switch f.kind {
	case FaultOnes:
		if strikes {
			ones := bytes.Repeat(binary.NativeEndian.AppendUint16(nil, numeric.BF16(1)), size/2)
			return out, f.write(out, ones)
		}
	case FaultStale:
		now, err := f.read(out, size)
		if err != nil {
			return 0, err
		}
		before := f.bound.previous
		f.bound.previous = now
		if strikes && len(before) > 0 {
			return out, f.write(out, before)
		}
	}
	return out, nil
}

// disguise returns a copy of p with its own buffers.
func (f *faulty) disguise(p *Problem) (d *disguise, err error) {
	d = &disguise{honest: p, given: *p}
	for _, b := range f.buffers(d) {
		if *b.to, err = f.m.alloc(b.bytes); err != nil {
			return nil, err
		}
	}
	d.given.Inputs, d.given.Input = []accel.Ptr{d.given.X}, 0
	return d, nil
}

// buffer pairs an input of the original problem with its disguise, in the order of inputX and so
// on.
type buffer struct {
	from  accel.Ptr
	to    *accel.Ptr
	bytes int
}

func (f *faulty) buffers(d *disguise) []buffer {
	p := d.honest
	return []buffer{
		{p.X, &d.given.X, 2 * p.Tokens * p.Hidden},
		{p.Expert, &d.given.Expert, f.m.d.IndexType.Size() * p.Tokens * p.TopK},
		{p.Weight, &d.given.Weight, 4 * p.Tokens * p.TopK},
	}
}

// give copies the current inputs to the disguise, corrupted if the fault strikes.
func (f *faulty) give(strikes bool) error {
	d := f.bound
	buffers := f.buffers(d)
	inputs := make([][]byte, len(buffers))
	for i, b := range buffers {
		var err error
		if inputs[i], err = f.read(b.from, b.bytes); err != nil {
			return err
		}
	}
	if strikes {
		f.corrupt(inputs[inputX], inputs[inputExpert], inputs[inputWeight])
	}
	for i, b := range buffers {
		if strikes && f.kind == FaultNoWeights && i == inputWeight {
			continue
		}
		if err := f.write(*b.to, inputs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (f *faulty) write(at accel.Ptr, data []byte) error {
	return accel.Write(f.m.device, f.m.stream, at, data)
}

func (f *faulty) read(at accel.Ptr, bytes int) ([]byte, error) {
	return accel.Read[byte](f.m.device, f.m.stream, at, bytes)
}

// Inputs of a problem, in the order of buffers.
const (
	inputX = iota
	inputExpert
	inputWeight
)

// corrupt changes the inputs of the first token, or of the first two if the fault needs two. A rank
// with too few tokens sends correct data.
func (f *faulty) corrupt(x, experts, weights []byte) {
	p := f.bound.given
	row, ids, parts := 2*p.Hidden, f.m.d.IndexType.Size()*p.TopK, 4*p.TopK
	if p.Tokens < 1 {
		return
	}
	switch f.kind {
	case FaultFlipBit:
		flipSign(x[:row])
	case FaultZeroPayload:
		clear(x)
	case FaultDropToken:
		for slot := range p.TopK {
			f.setExpert(experts, slot, -1)
		}
	case FaultWrongWeight:
		w := math.Float32frombits(binary.NativeEndian.Uint32(weights))
		binary.NativeEndian.PutUint32(weights, math.Float32bits(w+0.5))
	case FaultWrongExpert:
		var used []int64
		for slot := range p.TopK {
			used = append(used, f.expert(experts, slot))
		}
		e := used[0]
		for slices.Contains(used, e) && p.TopK < p.Experts {
			e = (e + 1) % int64(p.Experts)
		}
		f.setExpert(experts, 0, e)
	}
	if p.Tokens < 2 {
		return
	}
	switch f.kind {
	case FaultSwapTokens:
		first := slices.Clone(x[:row])
		copy(x, x[row:2*row])
		copy(x[row:], first)
	case FaultDoubleToken:
		copy(x[row:2*row], x[:row])
		copy(experts[ids:2*ids], experts[:ids])
		copy(weights[parts:2*parts], weights[:parts])
	}
}

// expert reads the expert of a slot, in the library's index type.
func (f *faulty) expert(experts []byte, slot int) int64 {
	if f.m.d.IndexType == numeric.Int32 {
		return int64(int32(binary.NativeEndian.Uint32(experts[4*slot:])))
	}
	return int64(binary.NativeEndian.Uint64(experts[8*slot:]))
}

func (f *faulty) setExpert(experts []byte, slot int, e int64) {
	if f.m.d.IndexType == numeric.Int32 {
		binary.NativeEndian.PutUint32(experts[4*slot:], uint32(int32(e)))
	} else {
		binary.NativeEndian.PutUint64(experts[8*slot:], uint64(e))
	}
}

// flipSign flips the sign of the largest value of a bf16 row, excluding the columns that encode the
// source.
func flipSign(row []byte) {
	largest, at := uint16(0), 0
	for i := 2 * workload.SourceColumns; i < len(row); i += 2 {
		if v := binary.NativeEndian.Uint16(row[i:]) & 0x7fff; v >= largest {
			largest, at = v, i
		}
	}
	binary.NativeEndian.PutUint16(row[at:], binary.NativeEndian.Uint16(row[at:])^0x8000)
}
