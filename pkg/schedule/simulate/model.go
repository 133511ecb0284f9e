package simulate

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/schedule/strictyaml"
)

// Model is a Machine without its topology, as files and manifests of studies have it.
type Model struct {
	// Origin says where the figures come from, in a line.
	Origin     string  `yaml:"origin,omitempty" json:"source,omitempty"`
	Sharing    string  `yaml:"sharing" json:"sharing"`                                           // of links: unloaded, fifo, fair
	Engines    int     `yaml:"engines" json:"engines"`                                           // messages that a rank sends at the same time; 0 is no limit
	Latency    float64 `yaml:"latency_ns,omitempty" json:"latency_ns,omitempty"`                 // of each link
	PerByte    float64 `yaml:"ns_per_byte,omitempty" json:"ns_per_byte,omitempty"`               // of each link
	Overhead   float64 `yaml:"overhead_ns,omitempty" json:"overhead_ns,omitempty"`               // of the sender and of the receiver
	ReduceByte float64 `yaml:"reduce_ns_per_byte,omitempty" json:"reduce_ns_per_byte,omitempty"` // of a sum
	// Start is the time from the common start of the ranks to their first ops.
	Start float64 `yaml:"start_ns,omitempty" json:"start_ns,omitempty"`
	// MemorySetup and MemoryByte are what a read or a write of a rank's memory takes: before its
	// first byte, the way to its bank included, and for each byte.
	MemorySetup float64 `yaml:"memory_setup_ns,omitempty" json:"memory_setup_ns,omitempty"`
	MemoryByte  float64 `yaml:"memory_ns_per_byte,omitempty" json:"memory_ns_per_byte,omitempty"`
	// Pairs are measured times of messages that are under way alone, from each rank to each
	// other; they replace the latency and the bytes of links.
	Pairs []Pair `yaml:"pairs,omitempty" json:"pairs,omitempty"`
	// Flight is the time from when the sender of a measured message is free for the next one until
	// the message has arrived. It comes on top of the times of Pairs, Both and All, and needs pairs.
	Flight float64 `yaml:"flight_ns,omitempty" json:"flight_ns,omitempty"`
	// Both are those of two messages that two ranks send to each other at the same time, and
	// All those of messages that all ranks send at the same time, each to another rank.
	Both []Pair  `yaml:"both,omitempty" json:"both,omitempty"`
	All  []Class `yaml:"all,omitempty" json:"all,omitempty"`
	// Cached are times like All, of messages into memory that the receiver has in its caches, as it
	// has the data to which it adds a message. Without it, messages that are added take those of All.
	Cached []Class `yaml:"cached,omitempty" json:"cached,omitempty"`
	// Reduce and Copy are measured times of adding received data, and of copies on a rank. They
	// need pairs; Reduce replaces the bytes of sums.
	Reduce []Class `yaml:"reduce,omitempty" json:"reduce,omitempty"`
	Copy   []Class `yaml:"copy,omitempty" json:"copy,omitempty"`
}

// Pair is the measured times of messages between two ranks.
type Pair struct {
	Src int `yaml:"src" json:"src"`
	Dst int `yaml:"dst" json:"dst"`
	// Classes are ranges of sizes, ascending. Between two of them the times break, for
	// instance where a library changes its protocol or data no longer fit into a cache.
	Classes []Class `yaml:"classes" json:"classes"`
}

// Class is the measured sizes between two breaks, ascending.
type Class struct {
	Points []Point `yaml:"points,flow" json:"points"`
}

// Point is the time of a message of a size.
type Point struct {
	Bytes       int64   `yaml:"bytes" json:"bytes"`
	Nanoseconds float64 `yaml:"ns" json:"ns"`
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

// SHA256 returns the hexadecimal digest of the figures of the model, wherever they come from.
func (m Model) SHA256() string {
	m.Origin = ""
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // finite numbers always have a JSON form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Source is the file whose doc comments describe the fields of a model in JSON Schemas.
//
//go:embed model.go
var Source embed.FS

// Check returns the first thing that is wrong with the model, with the key of its file.
func (m *Model) Check() error {
	if err := Sharing(m.Sharing).check(); err != nil {
		return err
	}
	if m.Engines < 0 {
		return fmt.Errorf("engines: %d: want at least 0; 0 is no limit", m.Engines)
	}
	for _, cost := range []struct {
		key string
		ns  float64
	}{
		{"latency_ns", m.Latency},
		{"ns_per_byte", m.PerByte},
		{"overhead_ns", m.Overhead},
		{"reduce_ns_per_byte", m.ReduceByte},
		{"start_ns", m.Start},
		{"flight_ns", m.Flight},
		{"memory_setup_ns", m.MemorySetup},
		{"memory_ns_per_byte", m.MemoryByte},
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
		PerByte: m.PerByte * ns, ReduceByte: m.ReduceByte * ns, Start: FromNanoseconds(m.Start),
		Memory: Memory{FromNanoseconds(m.MemorySetup), m.MemoryByte * ns},
	}
	if len(m.Pairs) == 0 {
		if len(m.Both)+len(m.All)+len(m.Cached)+len(m.Reduce)+len(m.Copy) > 0 || m.Flight != 0 {
			return out, errors.New("both, all, cached, reduce, copy and flight_ns need pairs: measure all of them together")
		}
		return out, nil
	}
	if m.MemorySetup != 0 || m.MemoryByte != 0 {
		return out, errors.New("measured times have the memory in them: leave memory_setup_ns and memory_ns_per_byte out")
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
	var err error
	out.Latency = FromNanoseconds(m.Flight)
	out.Table, err = newTable(m)
	return out, err
}

// FromNanoseconds returns a time in nanoseconds, rounded.
func FromNanoseconds(ns float64) Picoseconds {
	return Picoseconds(math.Round(ns * float64(Nanosecond)))
}
