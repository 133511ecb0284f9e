package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// data makes and judges arrays of the size of the activations: with kernels in device memory
// (kernelData), or on the host on copies (copied). Both give the same result, bit for bit. Every
// method waits for its result.
type data interface {
	// fill writes the activations of o's rank to x: bf16, [tokens][Hidden].
	fill(o *oracle, x accel.Ptr) error
	// filled reports whether x holds the activations of o's rank.
	filled(o *oracle, x accel.Ptr) (bool, error)
	// sources returns the token that each received row names, −1 for a row that names none.
	sources(o *oracle, rx *Received) ([]int64, error)
	// payload reports whether each received row matches its token.
	payload(o *oracle, rx *Received, tokens []int64) (bool, error)
	// transform applies a transform to each received row and writes the results to to.
	transform(o *oracle, rx *Received, by []workload.Affine, to []Rows) error
	// choose writes chosen rows to to.
	choose(o *oracle, rows []choice, to []Rows) error
	// combined returns the largest error of out, the result of combine for messages.
	combined(o *oracle, kind messages, out accel.Ptr) (float64, error)
	// declared returns the largest error of out, the result of combine for the chosen rows, in
	// units in the last place of bf16, and how many values exceed the bound.
	declared(o *oracle, out accel.Ptr) (worst float64, wrong int, err error)
	// compare returns the largest error of n values against reference values.
	compare(got, reference accel.Ptr, n int) (float64, error)
	close() error
}

// choice selects the chosen row of a part (see message) of a token. A part of −1 selects a row of
// zeros.
type choice struct {
	token int
	part  int
}

// newData returns kernels on a device or, if none can be compiled, the host implementation.
func newData(ctx context.Context, d accel.Device, s accel.Stream) (data, error) {
	host := &copied{device: d, stream: s}
	kernels, err := newKernelData(ctx, d, s)
	if errors.Is(err, accel.ErrUnsupported) {
		return host, nil
	}
	if err != nil {
		return nil, rank.Coded(result.ReasonDevice, err)
	}
	return kernels, nil
}

// secondValues is the maximum number of values, received or combined, that the host re-checks even
// if the kernels found nothing wrong.
const secondValues = 1 << 19

// seconded is data judged by kernels, whose results the host re-checks. For each question of a case
// it does so once, on the first small input, and again on the first failure. This guards against
// kernels that miss every error.
type seconded struct {
	data
	host  *copied
	asked map[opinion]bool
}

// opinion is a question whose result the host re-checks once.
type opinion struct {
	what   string
	scaled bool // of the scaled activations
	wrong  bool
}

// forCase returns d for one case: kernels with second opinions, or the host if the kernels do not
// support the case's top-k.
func forCase(d data, topk int) data {
	k, ok := d.(*kernelData)
	if !ok {
		return d
	}
	host := &copied{device: k.device, stream: k.stream}
	if topk > maxTopK {
		return host
	}
	return &seconded{d, host, map[opinion]bool{}}
}

// due reports whether the host must check, and records that it has.
func (s *seconded) due(q opinion, values int) bool {
	if s.asked[q] || !q.wrong && (values == 0 || values > secondValues) {
		return false
	}
	s.asked[q] = true
	return true
}

// disagree returns the error for different results of device and host, when neither can be trusted.
func disagree(what string, device, host any) error {
	return rank.Coded(result.ReasonUnchecked, fmt.Errorf("%s: the device finds %v, the host right after it %v: either the library was still writing, on another stream than the caller's, or this is a defect of cxrun or of the device's compiler; report it", what, device, host))
}

func (s *seconded) fill(o *oracle, x accel.Ptr) error {
	const what = "fill"
	if err := s.data.fill(o, x); err != nil || !s.due(opinion{what, o.fill.scaled, false}, o.values()) {
		return err
	}
	if same, err := s.host.filled(o, x); err != nil || same {
		return err
	}
	return disagree(what, "its own activations", "others")
}

func (s *seconded) filled(o *oracle, x accel.Ptr) (bool, error) {
	const what = "inputs unchanged"
	same, err := s.data.filled(o, x)
	if err != nil || !s.due(opinion{what, o.fill.scaled, !same}, o.values()) {
		return same, err
	}
	second, err := s.host.filled(o, x)
	if err == nil && second != same {
		err = disagree(what, same, second)
	}
	return same, err
}

func (s *seconded) payload(o *oracle, rx *Received, tokens []int64) (bool, error) {
	const what = "payload"
	right, err := s.data.payload(o, rx, tokens)
	if err != nil || !s.due(opinion{what, o.fill.scaled, !right}, len(tokens)*len(o.pattern)) {
		return right, err
	}
	second, err := s.host.payload(o, rx, tokens)
	if err == nil && second != right {
		err = disagree(what, right, second)
	}
	return right, err
}

func (s *seconded) transform(o *oracle, rx *Received, by []workload.Affine, to []Rows) error {
	const what = "transform"
	if err := s.data.transform(o, rx, by, to); err != nil || !s.due(opinion{what, o.fill.scaled, false}, len(by)*len(o.pattern)) {
		return err
	}
	return s.host.holds(what, to, len(o.pattern), s.host.transformedRows(o, rx, by))
}

func (s *seconded) choose(o *oracle, rows []choice, to []Rows) error {
	const what = "chosen rows"
	if err := s.data.choose(o, rows, to); err != nil || !s.due(opinion{what, o.fill.scaled, false}, len(rows)*len(o.pattern)) {
		return err
	}
	return s.host.holds(what, to, len(o.pattern), s.host.chosenRows(o, rows))
}

func (s *seconded) combined(o *oracle, kind messages, out accel.Ptr) (float64, error) {
	what := "combined values " + kind.String()
	worst, err := s.data.combined(o, kind, out)
	if err != nil || !s.due(opinion{what, o.fill.scaled, !within(worst)}, o.values()) {
		return worst, err
	}
	second, err := s.host.combined(o, kind, out)
	if err == nil && !same(worst, second) {
		err = disagree(what, worst, second)
	}
	return worst, err
}

func (s *seconded) declared(o *oracle, out accel.Ptr) (worst float64, wrong int, err error) {
	const what = "declared arithmetic"
	worst, wrong, err = s.data.declared(o, out)
	if err != nil || !s.due(opinion{what, o.fill.scaled, wrong > 0}, o.values()) {
		return worst, wrong, err
	}
	second, others, err := s.host.declared(o, out)
	if err == nil && (!same(worst, second) || wrong != others) {
		err = disagree(what, []any{worst, wrong}, []any{second, others})
	}
	return worst, wrong, err
}

// same compares errors, treating NaNs as equal.
func same(a, b float64) bool { return a == b || a != a && b != b }
