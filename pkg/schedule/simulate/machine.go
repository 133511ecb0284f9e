package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// Picoseconds is a time.
type Picoseconds int64

// Units of time.
const (
	Nanosecond  Picoseconds = 1000
	Microsecond             = 1000 * Nanosecond
)

// Nanoseconds returns t in nanoseconds.
func (t Picoseconds) Nanoseconds() float64 { return float64(t) / float64(Nanosecond) }

// MarshalJSON writes t in nanoseconds.
func (t Picoseconds) MarshalJSON() ([]byte, error) { return json.Marshal(t.Nanoseconds()) }

// Sharing is how messages share links.
type Sharing string

// The models of sharing.
const (
	// Unloaded: they do not. A message takes the latency of its hops and the time of its
	// bytes on one link.
	Unloaded Sharing = "unloaded"
	// FIFO: a link has one message at a time, in the order in which they arrive; a node
	// forwards a message when all of it is there.
	FIFO Sharing = "fifo"
	// Fair: messages flow through all their links at once, at the rates that are
	// max-min fair, renewed whenever one starts or ends.
	Fair Sharing = "fair"
)

func (s Sharing) check() error {
	switch s {
	case Unloaded, FIFO, Fair:
		return nil
	}
	return fmt.Errorf("sharing %q, must be %s, %s or %s", s, Unloaded, FIFO, Fair)
}

// Machine is the cost of steps. Rates are in picoseconds per byte; 0 costs nothing.
type Machine struct {
	Topology Topology
	Sharing  Sharing
	Latency  Picoseconds // of each link
	PerByte  float64     // of each link
	// Network is the cost of each link between a rank and the network that joins hosts, which
	// Latency and PerByte are not for.
	Network Link
	// Issue is the time that a stream needs to issue an op, before which the op does not
	// start.
	Issue Picoseconds
	// Overhead holds an engine of the sender before the bytes leave, and delays the receiver
	// after they have arrived.
	Overhead Picoseconds
	// Engines is how many messages a rank sends at the same time; the others wait in
	// order. An engine is held until the last byte has left. 0 is no limit.
	Engines int
	// NetworkEngines is the same for messages to other hosts, which have engines of their own.
	NetworkEngines int
	ReduceByte     float64 // of adding data that was received or is there
	CopyByte       float64 // of copying data on a rank
	Memory         Memory
	// Quantum truncates the time of a message's bytes on a link to a multiple; 0 and 1 keep
	// picoseconds.
	Quantum Picoseconds
	// Start is the time from the common start of the ranks to their first ops.
	Start Picoseconds
	// Table, if there is one, has measured times of messages, sums and copies. A message holds
	// an engine of its sender for that time, and arrives after the latency; PerByte is not used.
	Table *Table
}

// Link is the cost of a link.
type Link struct {
	Latency Picoseconds
	PerByte float64 // in picoseconds
}

// of is the cost of a link.
func (m *Machine) of(link int32) Link {
	if m.Topology.isNetwork(link) {
		return m.Network
	}
	return Link{m.Latency, m.PerByte}
}

// flight is the latency of the links from a rank to another one.
func (m *Machine) flight(from, to int32) (t Picoseconds) {
	m.Topology.route(from, to, func(link int32) { t += m.of(link).Latency })
	return t
}

// Memory is what reading or writing the memory of a rank takes. A send and a put read it,
// before the first byte leaves; a receive writes it once the last byte is there, and reads it
// too if it adds. A copy reads and writes, and a sum reads twice and writes. A rank into whose
// memory another puts data takes no part.
type Memory struct {
	Setup   Picoseconds // of a read or a write; the way to the bank included
	PerByte float64     // in picoseconds
}

// take is the time of reads and writes of n bytes each, one after another.
func (m Memory) take(accesses int, n int64) Picoseconds {
	if n == 0 {
		return 0
	}
	return Picoseconds(accesses) * (m.Setup + bytes(n, m.PerByte))
}

// accesses is how often a rank reads or writes the data of an op; of a send, at the sender.
func accesses(k schedule.Kind) int {
	switch k {
	case schedule.Send, schedule.Put, schedule.Recv:
		return 1
	case schedule.RecvReduce, schedule.Copy:
		return 2
	case schedule.Reduce:
		return 3
	}
	return 0
}

func (m *Machine) check(ranks int) error {
	if m.Topology.Ranks != ranks {
		return fmt.Errorf("%s has %d ranks, the program has %d", m.Topology.Name, m.Topology.Ranks, ranks)
	}
	if err := m.Sharing.check(); err != nil {
		return err
	}
	if m.Table != nil && (m.Sharing != Unloaded || m.Topology.Name != Full(ranks).Name) {
		return errors.New("the model has measured times between ranks: take the topology full and the sharing unloaded")
	}
	for _, cost := range []float64{float64(m.Start), float64(m.Latency), float64(m.Issue), float64(m.Overhead), float64(m.Engines), float64(m.NetworkEngines), float64(m.Quantum), m.PerByte, float64(m.Network.Latency), m.Network.PerByte, m.ReduceByte, m.CopyByte, float64(m.Memory.Setup), m.Memory.PerByte} {
		if !(cost >= 0) || math.IsInf(cost, 1) {
			return errors.New("a cost of the machine is negative or not finite")
		}
	}
	return nil
}

// bytes is the time of n bytes at a rate.
func bytes(n int64, perByte float64) Picoseconds {
	return Picoseconds(math.Round(float64(n) * perByte))
}

// unloaded is the time for which a message of n bytes leaves its rank where others do not slow
// it down: that of its bytes on the slowest of its links, or all of its time in the table.
func (m *Machine) unloaded(from, to int32, n int64) (t Picoseconds) {
	if m.Table != nil {
		t, _ = m.Table.alone(from, to).time(n)
		return t
	}
	m.Topology.route(from, to, func(link int32) { t = max(t, m.onLink(link, n)) })
	return t
}

// forwarded is the time of the bytes of such a message until all are there: under FIFO each of its
// links takes all bytes before the next one.
func (m *Machine) forwarded(from, to int32, n int64) (t Picoseconds) {
	if m.Sharing != FIFO {
		return m.unloaded(from, to, n)
	}
	m.Topology.route(from, to, func(link int32) { t += m.onLink(link, n) })
	return t
}

// sent is the time until its last byte has left its rank.
func (m *Machine) sent(from, to int32, n int64) Picoseconds {
	if m.Sharing != FIFO {
		return m.unloaded(from, to, n)
	}
	link, _ := m.Topology.next(from, to)
	return m.onLink(link, n)
}

// onRank is the time of a sum or a copy of n bytes on a rank.
func (m *Machine) onRank(k schedule.Kind, n int64) Picoseconds {
	perByte, measured := m.ReduceByte, curve(nil)
	if m.Table != nil {
		measured = m.Table.reduce
	}
	if k == schedule.Copy {
		if perByte = m.CopyByte; m.Table != nil {
			measured = m.Table.copies
		}
	}
	if t, ok := measured.time(n); ok && n > 0 {
		return t
	}
	return bytes(n, perByte)
}

// onLink is the time of n bytes on a link.
func (m *Machine) onLink(link int32, n int64) Picoseconds {
	t := bytes(n, m.of(link).PerByte)
	if m.Quantum > 1 {
		t -= t % m.Quantum
	}
	return t
}
