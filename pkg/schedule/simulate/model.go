package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/schedule/strictyaml"
)

// Model is a Machine without its topology, as files and manifests of studies have it.
type Model struct {
	// Origin says where the figures come from, in a line.
	Origin     string  `yaml:"origin,omitempty"`
	Sharing    string  `yaml:"sharing"`
	Engines    int     `yaml:"engines"`
	Latency    float64 `yaml:"latency_ns,omitempty"`
	PerByte    float64 `yaml:"ns_per_byte,omitempty"`
	Overhead   float64 `yaml:"overhead_ns,omitempty"`
	ReduceByte float64 `yaml:"reduce_ns_per_byte,omitempty"`
	// Pairs are measured times of messages; they replace the latency and the bytes of links.
	Pairs []Pair `yaml:"pairs,omitempty"`
}

// Pair is the measured times of single messages from one rank to another.
type Pair struct {
	Src int `yaml:"src"`
	Dst int `yaml:"dst"`
	// Classes are ranges of sizes, ascending. Between two of them the times break, for
	// instance where a library changes its protocol or data no longer fit into a cache.
	Classes []Class `yaml:"classes"`
}

// Class is the measured sizes between two breaks, ascending.
type Class struct {
	Points []Point `yaml:"points,flow"`
}

// Point is the time of a message of a size.
type Point struct {
	Bytes       int64   `yaml:"bytes"`
	Nanoseconds float64 `yaml:"ns"`
}

// ReadModel reads the file of a model. An error begins with the name of the file.
func ReadModel(name string, data []byte) (Model, error) {
	var m Model
	err := strictyaml.Decode(data, &m)
	if err == nil {
		err = m.Check()
	}
	if err != nil {
		return Model{}, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// Write writes the file of a model.
func (m *Model) Write(w io.Writer) error {
	e := yaml.NewEncoder(w)
	return errors.Join(e.Encode(m), e.Close())
}

// Check returns the first thing that is wrong with the model, with the key of its file.
func (m *Model) Check() error {
	if err := Sharing(m.Sharing).check(); err != nil {
		return err
	}
	if m.Engines < 0 {
		return fmt.Errorf("engines: %d: want a number from 0 on; 0 is no limit", m.Engines)
	}
	for _, cost := range []struct {
		key string
		ns  float64
	}{
		{"latency_ns", m.Latency},
		{"ns_per_byte", m.PerByte},
		{"overhead_ns", m.Overhead},
		{"reduce_ns_per_byte", m.ReduceByte},
	} {
		if !(cost.ns >= 0) || cost.ns > mostNanoseconds {
			return fmt.Errorf("%s: %v: want a number from 0 to %.0e", cost.key, cost.ns, mostNanoseconds)
		}
	}
	if len(m.Pairs) == 0 && m.Latency == 0 && m.PerByte == 0 && m.Overhead == 0 {
		return errors.New("messages take no time: give latency_ns, ns_per_byte or overhead_ns, or measured pairs")
	}
	_, err := m.Machine(Topology{})
	return err
}

// Machine returns the machine of the model with a topology. Its error says what of the
// measured times is wrong.
func (m *Model) Machine(t Topology) (Machine, error) {
	ns := float64(Nanosecond)
	out := Machine{
		Topology: t, Sharing: Sharing(m.Sharing), Engines: m.Engines,
		Latency: FromNanoseconds(m.Latency), Overhead: FromNanoseconds(m.Overhead),
		PerByte: m.PerByte * ns, ReduceByte: m.ReduceByte * ns,
	}
	if len(m.Pairs) == 0 {
		return out, nil
	}
	if m.Latency != 0 || m.PerByte != 0 || m.Sharing != string(Unloaded) {
		return out, errors.New("measured pairs replace latency_ns and ns_per_byte, and need the sharing unloaded")
	}
	var err error
	out.Table, err = newTable(m.Pairs)
	return out, err
}

// FromNanoseconds returns a time in nanoseconds, rounded.
func FromNanoseconds(ns float64) Picoseconds {
	return Picoseconds(math.Round(ns * float64(Nanosecond)))
}

// Table is the times of messages by sender and receiver. A size between two measured ones of
// a class takes a time on the line between theirs. Any other takes that of the next larger
// measured size, so that no line crosses a break.
type Table struct {
	ranks   int
	classes [][]Class // by sender · ranks + receiver
}

// mostNanoseconds limits a measured time, so that sums of times cannot overflow.
const mostNanoseconds = 1e12

func newTable(pairs []Pair) (*Table, error) {
	t := &Table{}
	for _, p := range pairs {
		if p.Src < 0 || p.Dst < 0 || p.Src == p.Dst || max(p.Src, p.Dst) > maxTableRanks {
			return nil, fmt.Errorf("pair %d to %d, must be two ranks from 0 to %d", p.Src, p.Dst, maxTableRanks)
		}
		t.ranks = max(t.ranks, p.Src+1, p.Dst+1)
	}
	t.classes = make([][]Class, t.ranks*t.ranks)
	for _, p := range pairs {
		at := &t.classes[p.Src*t.ranks+p.Dst]
		if *at != nil {
			return nil, fmt.Errorf("pair %d to %d is there twice", p.Src, p.Dst)
		}
		last := int64(0)
		for _, c := range p.Classes {
			for _, x := range c.Points {
				if x.Bytes <= last || !(x.Nanoseconds > 0) || x.Nanoseconds > mostNanoseconds {
					return nil, fmt.Errorf("pair %d to %d: %v ns for %d bytes: list sizes in ascending order, with times above 0 and up to %.0e",
						p.Src, p.Dst, x.Nanoseconds, x.Bytes, mostNanoseconds)
				}
				last = x.Bytes
			}
		}
		if last == 0 {
			return nil, fmt.Errorf("pair %d to %d has no points", p.Src, p.Dst)
		}
		*at = p.Classes
	}
	return t, nil
}

// maxTableRanks limits the memory of a table, which grows with the square of its ranks.
const maxTableRanks = 1023

// time returns the time of a message of n bytes; ok is false if no size as large was measured
// between the two ranks.
func (t *Table) time(from, to int32, n int64) (at Picoseconds, ok bool) {
	for _, c := range t.classes[int(from)*t.ranks+int(to)] {
		i, exact := slices.BinarySearchFunc(c.Points, n, func(p Point, n int64) int { return cmp.Compare(p.Bytes, n) })
		if i == len(c.Points) {
			continue
		}
		ns := c.Points[i].Nanoseconds
		if !exact && i > 0 {
			before := c.Points[i-1]
			ns = before.Nanoseconds + (ns-before.Nanoseconds)*float64(n-before.Bytes)/float64(c.Points[i].Bytes-before.Bytes)
		}
		return FromNanoseconds(ns), true
	}
	return 0, false
}
