package catalog

import (
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/strictyaml"
)

// Bytes is an amount of memory, written as a number of bytes or with a binary
// unit: 8, 4KiB, 1MiB, 8GiB.
type Bytes int64

// MaxBytes is the largest amount a definition can name.
const MaxBytes = 1 << 50

// parseBytes reads an amount.
func parseBytes(s string) (Bytes, bool) {
	unit := int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB"} {
		if number, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = number, 1<<(10*(i+1))
			break
		}
	}
	x, err := strconv.ParseInt(s, 10, 64)
	if err != nil || x < 0 || x > MaxBytes/unit {
		return 0, false
	}
	return Bytes(x * unit), true
}

// DecodeYAML implements strictyaml.Custom.
func (b *Bytes) DecodeYAML(n strictyaml.Node) {
	x, ok := parseBytes(n.Value)
	if n.Kind != yaml.ScalarNode || !ok {
		n.MustBe("an amount of bytes such as 8, 4KiB or 1MiB")
		return
	}
	if n.Within(float64(x)) {
		*b = x
	}
}

// Sizes is a ladder of message sizes: From, From·Factor, … up to To.
type Sizes struct {
	From   Bytes `yaml:"from" min:"1"`
	To     Bytes `yaml:"to" min:"1"`
	Factor int   `yaml:"factor" min:"2"`
}

// CheckYAML implements strictyaml.Checked.
func (s *Sizes) CheckYAML() (at any, why string) {
	if s.From > s.To {
		return &s.From, `"from" must not be larger than "to"`
	}
	return nil, ""
}

// List returns the sizes, ascending.
func (s Sizes) List() []int64 {
	var out []int64
	for n := int64(s.From); n <= int64(s.To); n *= int64(s.Factor) {
		out = append(out, n)
		if n > int64(s.To)/int64(s.Factor) {
			break
		}
	}
	return out
}
