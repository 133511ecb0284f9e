package simulate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/strictyaml"
)

// Model is a Machine without its topology, as it is written in files and manifests of studies.
type Model struct {
	// Origin says where the figures come from, in a line.
	Origin  string  `yaml:"origin,omitempty" json:"source,omitempty"`
	Sharing string  `yaml:"sharing,omitempty" json:"sharing"`                   // of links: unloaded, fifo, fair
	Engines int     `yaml:"engines" json:"engines" default:"0"`                 // messages that a rank sends at the same time; 0 is no limit
	Latency float64 `yaml:"latency_ns,omitempty" json:"latency_ns,omitempty"`   // of each link
	PerByte float64 `yaml:"ns_per_byte,omitempty" json:"ns_per_byte,omitempty"` // of each link
	// NetworkLatency and NetworkByte are the costs of each link between a rank and the network, in the
	// topology hosts. A message to another host takes two such links and uses separate engines.
	NetworkLatency float64 `yaml:"network_latency_ns,omitempty" json:"network_latency_ns,omitempty"`
	NetworkByte    float64 `yaml:"network_ns_per_byte,omitempty" json:"network_ns_per_byte,omitempty"`
	NetworkEngines int     `yaml:"network_engines,omitempty" json:"network_engines,omitempty"`       // 0 is no limit
	Issue          float64 `yaml:"issue_ns,omitempty" json:"issue_ns,omitempty"`                     // of each op, on its stream
	CopyByte       float64 `yaml:"copy_ns_per_byte,omitempty" json:"copy_ns_per_byte,omitempty"`     // of a copy on a rank
	Overhead       float64 `yaml:"overhead_ns,omitempty" json:"overhead_ns,omitempty"`               // of the sender and of the receiver
	ReduceByte     float64 `yaml:"reduce_ns_per_byte,omitempty" json:"reduce_ns_per_byte,omitempty"` // of a sum
	// Start is the time from the common start of the ranks to their first ops.
	Start float64 `yaml:"start_ns,omitempty" json:"start_ns,omitempty"`
	// MemorySetup and MemoryByte are the times of a read or write of a rank's memory: before its
	// first byte, including the way to its bank, and for each byte.
	MemorySetup float64 `yaml:"memory_setup_ns,omitempty" json:"memory_setup_ns,omitempty"`
	MemoryByte  float64 `yaml:"memory_ns_per_byte,omitempty" json:"memory_ns_per_byte,omitempty"`
	// Pairs are measured times of messages from each rank to each other rank while no other message is
	// under way. They replace the latency and the bytes of links.
	Pairs []Pair `yaml:"pairs,omitempty" json:"pairs,omitempty"`
	// Flight is the time from when the sender of a measured message is free for the next one until
	// the message has arrived. It comes on top of the times of Pairs, Both and All, and needs pairs.
	Flight float64 `yaml:"flight_ns,omitempty" json:"flight_ns,omitempty"`
	// Both are measured times of two messages that two ranks send to each other at the same time. All are
	// measured times of messages that all ranks send at the same time, each to another rank.
	Both []Pair  `yaml:"both,omitempty" json:"both,omitempty"`
	All  []Class `yaml:"all,omitempty" json:"all,omitempty"`
	// Cached are times like All, but of messages into memory that is in the receiver's caches, such as data
	// to which it adds a message. Without Cached, messages that are added take the times of All.
	Cached []Class `yaml:"cached,omitempty" json:"cached,omitempty"`
	// Reduce and Copy are measured times of adding received data, and of copies on a rank. They
	// need pairs; Reduce replaces the bytes of sums.
	Reduce []Class `yaml:"reduce,omitempty" json:"reduce,omitempty"`
	Copy   []Class `yaml:"copy,omitempty" json:"copy,omitempty"`
}

// Pair has the measured times of messages from one rank to another.
type Pair struct {
	Src int `yaml:"src" json:"src"`
	Dst int `yaml:"dst" json:"dst"`
	// Classes are ranges of sizes, ascending. Between two classes the times jump, for
	// instance where a library changes its protocol or data no longer fit into a cache.
	Classes []Class `yaml:"classes" json:"classes"`
}

// Class has the measured sizes between two jumps of the times, ascending.
type Class struct {
	Points []Point `yaml:"points,flow" json:"points"`
}

// Point is the time of a message of a size.
type Point struct {
	Bytes       int64   `yaml:"bytes" json:"bytes"`
	Nanoseconds float64 `yaml:"ns" json:"ns"`
}

// modelFile is the content of a model's file.
type modelFile struct {
	// Points is the number of points of the model. It detects a file truncated between two lines, which is
	// still valid YAML. It is optional in files written by hand.
	Points int `yaml:"points,omitempty"`
	Model  `yaml:",inline"`
}

// ReadModel parses the content of a model's file, and checks the model. Its errors begin with the name of the
// file.
func ReadModel(name string, data []byte) (Model, error) {
	var f modelFile
	if d := strictyaml.New(); !d.Read(name, data, &f) {
		return Model{}, d.First()
	}
	err := f.Check()
	if n := f.points(); err == nil && f.Points != 0 && f.Points != n {
		err = fmt.Errorf("points: the file has %d of %d points, as if it was truncated: measure again, or correct the number if you removed points", n, f.Points)
	}
	if err != nil {
		return Model{}, fmt.Errorf("%s: %w", name, err)
	}
	return f.Model, nil
}

// Write writes the model in the form that ReadModel reads.
func (m *Model) Write(w io.Writer) error {
	e := yaml.NewEncoder(w)
	return errors.Join(e.Encode(modelFile{m.points(), *m}), e.Close())
}

// points returns the number of measured times of the model.
func (m *Model) points() int {
	n := 0
	add := func(classes []Class) {
		for _, c := range classes {
			n += len(c.Points)
		}
	}
	for _, p := range slices.Concat(m.Pairs, m.Both) {
		add(p.Classes)
	}
	for _, classes := range [][]Class{m.All, m.Cached, m.Reduce, m.Copy} {
		add(classes)
	}
	return n
}

// Constants returns the model without its measured times.
func (m Model) Constants() Model {
	m.Pairs, m.Both, m.All, m.Cached, m.Reduce, m.Copy = nil, nil, nil, nil, nil, nil
	return m
}

// SHA256 returns the hexadecimal digest of the model without its Origin.
func (m Model) SHA256() string {
	m.Origin = ""
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // finite numbers always have a JSON form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Check returns an error for the first mistake in the model. An error about a single key begins with the key.
func (m *Model) Check() error {
	if err := Sharing(m.Sharing).check(); err != nil {
		return err
	}
	for _, engines := range []struct {
		key string
		n   int
	}{{"engines", m.Engines}, {"network_engines", m.NetworkEngines}} {
		if engines.n < 0 {
			return fmt.Errorf("%s: %d: must be at least 0, which is no limit", engines.key, engines.n)
		}
	}
	for _, cost := range []struct {
		key string
		ns  float64
	}{
		{"latency_ns", m.Latency},
		{"ns_per_byte", m.PerByte},
		{"network_latency_ns", m.NetworkLatency},
		{"network_ns_per_byte", m.NetworkByte},
		{"overhead_ns", m.Overhead},
		{"issue_ns", m.Issue},
		{"copy_ns_per_byte", m.CopyByte},
		{"reduce_ns_per_byte", m.ReduceByte},
		{"start_ns", m.Start},
		{"flight_ns", m.Flight},
		{"memory_setup_ns", m.MemorySetup},
		{"memory_ns_per_byte", m.MemoryByte},
	} {
		if !(cost.ns >= 0) || cost.ns > maxNanoseconds {
			return fmt.Errorf("%s: %v: want a number from 0 to %.0e", cost.key, cost.ns, maxNanoseconds)
		}
	}
	if len(m.Pairs) == 0 && m.Latency == 0 && m.PerByte == 0 && m.Overhead == 0 {
		return errors.New("messages take no time: give latency_ns, ns_per_byte or overhead_ns, or measured pairs")
	}
	_, err := m.Machine(Topology{})
	return err
}

// Machine returns the machine of the model with a topology. It fails if keys of the model contradict each
// other or its measured times are invalid, or if the topology has hosts and the model no costs of a network.
func (m *Model) Machine(t Topology) (Machine, error) {
	ns := float64(Nanosecond)
	out := Machine{
		Topology: t, Sharing: Sharing(m.Sharing), Engines: m.Engines,
		Latency: FromNanoseconds(m.Latency), Overhead: FromNanoseconds(m.Overhead),
		Network: Link{FromNanoseconds(m.NetworkLatency), m.NetworkByte * ns}, NetworkEngines: m.NetworkEngines,
		Issue: FromNanoseconds(m.Issue), CopyByte: m.CopyByte * ns,
		PerByte: m.PerByte * ns, ReduceByte: m.ReduceByte * ns, Start: FromNanoseconds(m.Start),
		Memory: Memory{FromNanoseconds(m.MemorySetup), m.MemoryByte * ns},
	}
	networked := m.NetworkLatency != 0 || m.NetworkByte != 0
	if t.network > 0 && !networked {
		return out, errors.New("messages between hosts take no time: give network_latency_ns or network_ns_per_byte")
	}
	if len(m.Pairs) == 0 {
		if len(m.Both)+len(m.All)+len(m.Cached)+len(m.Reduce)+len(m.Copy) > 0 || m.Flight != 0 {
			return out, errors.New("both, all, cached, reduce, copy and flight_ns need pairs: measure all of them together")
		}
		return out, nil
	}
	if m.MemorySetup != 0 || m.MemoryByte != 0 {
		return out, errors.New("measured times include memory accesses: leave memory_setup_ns and memory_ns_per_byte out")
	}
	if networked {
		return out, errors.New("measured pairs do not distinguish hosts: leave network_latency_ns and network_ns_per_byte out")
	}
	if m.Latency != 0 || m.PerByte != 0 || m.Sharing != string(Unloaded) {
		return out, errors.New("measured pairs replace latency_ns and ns_per_byte, and need the sharing unloaded")
	}
	if len(m.Cached) > 0 && len(m.All) == 0 {
		return out, errors.New("cached needs all: measure both of them")
	}
	if len(m.Reduce) > 0 && m.ReduceByte != 0 {
		return out, errors.New("reduce has measured times of sums: leave reduce_ns_per_byte out")
	}
	if len(m.Copy) > 0 && m.CopyByte != 0 {
		return out, errors.New("copy has measured times of copies: leave copy_ns_per_byte out")
	}
	var err error
	out.Latency = FromNanoseconds(m.Flight)
	out.Table, err = newTable(m)
	return out, err
}

// FromNanoseconds returns ns nanoseconds, rounded to a picosecond.
func FromNanoseconds(ns float64) Picoseconds {
	return Picoseconds(math.Round(ns * float64(Nanosecond)))
}
