package runner

import (
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// ledger follows the free memory of a device.
type ledger struct {
	device accel.Device
	free   int64
}

// took returns by how many bytes free memory has decreased since the last call. The first call only begins.
func (l *ledger) took() (int64, error) {
	free, _, err := l.device.Memory()
	bytes := l.free - free
	l.free = free
	return bytes, rank.Coded(result.ReasonDevice, err)
}

// foldMemory combines what the passes of the ranks took; nil if a rank has none.
func foldMemory(tracks []track) *collective.Memory {
	var all collective.Memory
	for i, t := range tracks {
		if len(t.memory) == 0 {
			return nil
		}
		m := t.memory[0]
		for _, pass := range t.memory[1:] {
			m.Communicators += pass.Communicators
			m.Buffers, m.Operations = max(m.Buffers, pass.Buffers), max(m.Operations, pass.Operations)
		}
		if i == 0 {
			all = m
		}
		all = collective.Memory{
			Communicators: max(all.Communicators, m.Communicators), Buffers: max(all.Buffers, m.Buffers), Operations: max(all.Operations, m.Operations),
		}
	}
	return &all
}

// nullStream makes the device's default stream that of the case, if the case requires that. The returned function
// undoes it.
func (r *Runner) nullStream(sp spec) (leave func(), err error) {
	own := r.stream
	leave = func() { r.stream = own }
	if !sp.block.NullStream {
		return leave, nil
	}
	of, ok := r.parts.Device.(accel.DefaultStreamer)
	if !ok {
		return leave, rank.Refused("the device has no null stream")
	}
	r.stream = of.DefaultStream()
	return leave, nil
}
