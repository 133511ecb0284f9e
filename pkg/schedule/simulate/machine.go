package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// Picoseconds is a time or a duration of a simulation.
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

// Sharing is the model of how messages share links.
type Sharing string

// The models of sharing.
const (
	// Unloaded messages do not slow each other down: a message takes the latency of all its links, and the time
	// of its bytes on the slowest link.
	Unloaded Sharing = "unloaded"
	// FIFO links carry one message at a time, in the order of arrival. A node forwards a message once
	// the whole message has arrived.
	FIFO Sharing = "fifo"
	// Fair messages flow through all their links at once, at max-min fair rates, which change whenever a
	// message starts or ends.
	Fair Sharing = "fair"
)

func (s Sharing) check() error {
	switch s {
	case Unloaded, FIFO, Fair:
		return nil
	}
	return fmt.Errorf("sharing %q, must be %s, %s or %s", s, Unloaded, FIFO, Fair)
}

// Machine is a topology and the costs of steps on it. A cost of 0 takes no time.
type Machine struct {
	Topology Topology
	Sharing  Sharing
	Latency  Picoseconds // of each link
	PerByte  float64     // of each link, in picoseconds
	// Network is the cost of each link between a rank and the network that joins hosts. Latency and
	// PerByte do not apply to these links.
	Network Link
	// Issue is the time that a stream takes to issue an op before the op starts.
	Issue Picoseconds
	// Overhead occupies an engine of the sender before the bytes leave, and delays the receiver after they
	// have arrived.
	Overhead Picoseconds
	// Engines is the number of messages that a rank can send at the same time. Other messages wait in
	// order until the last byte of an earlier message has left. 0: no limit.
	Engines int
	// NetworkEngines is like Engines, for messages to other hosts, which use separate engines.
	NetworkEngines int
	ReduceByte     float64 // of adding, in picoseconds
	CopyByte       float64 // of copying on a rank, in picoseconds
	Memory         Memory
	// The time of a message's bytes on a link is rounded down to a multiple of Quantum; 0 and 1 do not round.
	Quantum Picoseconds
	// Start is the time from the common start of the ranks to their first ops.
	Start Picoseconds
	// Table, if not nil, has measured times of messages, and may have times of sums and copies. A message
	// occupies an engine of its sender for its measured time, and arrives Latency later. PerByte is not
	// used.
	Table *Table
}

// Link is the cost of a link.
type Link struct {
	Latency Picoseconds
	PerByte float64 // in picoseconds
}

// linkCost returns the cost of a link.
func (m *Machine) linkCost(link int32) Link {
	if m.Topology.isNetwork(link) {
		return m.Network
	}
	return Link{m.Latency, m.PerByte}
}

// flight returns the latency of all links from one rank to another.
func (m *Machine) flight(from, to int32) (t Picoseconds) {
	m.Topology.route(from, to, func(link int32) { t += m.linkCost(link).Latency })
	return t
}

// Memory is the cost of an access to the memory of a rank. A send or put reads once, before its first byte
// leaves. A receive writes once, after its last byte has arrived, and a receive that adds also reads. A
// copy reads and writes. A sum reads twice and writes. A put costs nothing at the rank that it writes to.
type Memory struct {
	Setup   Picoseconds // before the first byte of an access, including the way to the memory bank
	PerByte float64     // in picoseconds
}

// take returns the time of a number of consecutive accesses to n bytes each.
func (m Memory) take(accesses int, n int64) Picoseconds {
	if n == 0 {
		return 0
	}
	return Picoseconds(accesses) * (m.Setup + bytes(n, m.PerByte))
}

// accesses returns the number of times that an op of a kind reads or writes its data on its own rank.
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

// check returns an error if the machine does not fit a program of so many ranks or has invalid costs.
func (m *Machine) check(ranks int) error {
	if m.Topology.Ranks != ranks {
		return fmt.Errorf("%s has %d ranks, the program has %d", m.Topology.Name, m.Topology.Ranks, ranks)
	}
	if err := m.Sharing.check(); err != nil {
		return err
	}
	if m.Table != nil && (m.Sharing != Unloaded || m.Topology.Name != Full(ranks).Name) {
		return errors.New("the model has measured times between ranks: use the topology full and the sharing unloaded")
	}
	for _, cost := range []float64{float64(m.Start), float64(m.Latency), float64(m.Issue), float64(m.Overhead), float64(m.Engines), float64(m.NetworkEngines), float64(m.Quantum), m.PerByte, float64(m.Network.Latency), m.Network.PerByte, m.ReduceByte, m.CopyByte, float64(m.Memory.Setup), m.Memory.PerByte} {
		if !(cost >= 0) || math.IsInf(cost, 1) {
			return errors.New("a cost of the machine is negative or not finite")
		}
	}
	return nil
}

// bytes returns the time of n bytes at a cost per byte.
func bytes(n int64, perByte float64) Picoseconds {
	return Picoseconds(math.Round(float64(n) * perByte))
}

// unloaded returns how long a message of n bytes takes to leave its rank if it is alone: its time in the
// table or, without a table, the time of its bytes on the slowest of its links.
func (m *Machine) unloaded(from, to int32, n int64) (t Picoseconds) {
	if m.Table != nil {
		t, _ = m.Table.alone(from, to).time(n)
		return t
	}
	m.Topology.route(from, to, func(link int32) { t = max(t, m.onLink(link, n)) })
	return t
}

// forwarded returns how long all n bytes of a message that is alone take to arrive, without latency. Under
// FIFO, each link carries all bytes before the next link begins.
func (m *Machine) forwarded(from, to int32, n int64) (t Picoseconds) {
	if m.Sharing != FIFO {
		return m.unloaded(from, to, n)
	}
	m.Topology.route(from, to, func(link int32) { t += m.onLink(link, n) })
	return t
}

// sent returns how long all n bytes of a message that is alone take to leave its rank.
func (m *Machine) sent(from, to int32, n int64) Picoseconds {
	if m.Sharing != FIFO {
		return m.unloaded(from, to, n)
	}
	link, _ := m.Topology.next(from, to)
	return m.onLink(link, n)
}

// onRank returns the time of a sum or a copy of n bytes on a rank.
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

// onLink returns the time of n bytes on a link.
func (m *Machine) onLink(link int32, n int64) Picoseconds {
	t := bytes(n, m.linkCost(link).PerByte)
	if m.Quantum > 1 {
		t -= t % m.Quantum
	}
	return t
}
