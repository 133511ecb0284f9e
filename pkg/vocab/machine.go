package vocab

import (
	"regexp"
	"slices"
	"strings"
)

// Launchers of ranks, and the container runtimes under which ranks run.
const (
	Bare  = "bare" // ranks are processes of the shard's host
	Slurm = "slurm"

	NoContainer = "none"
	Pyxis       = "pyxis"
	Docker      = "docker" // or podman
)

var containers = map[string][]string{Bare: {NoContainer, Docker}, Slurm: {NoContainer, Pyxis}}

// Containers lists the container runtimes that a launcher supports.
func Containers(launcher string) []string { return slices.Clone(containers[launcher]) }

// model matches the common name of a product in its full name.
var model = regexp.MustCompile(`(?i)\b(MI|GB|RTX|[ABHLPTVW])[ -]?([0-9]{1,4}[A-Z]{0,2})\b`)

// Model returns the name by which platforms and cases know a device with this full name: h200 for
// "NVIDIA H200", mi300x for "AMD Instinct MI300X OAM". A product without a common name keeps all of
// its words, such as quadro-k620. The name is lower case, without blanks.
func Model(product string) string {
	if m := model.FindStringSubmatch(product); m != nil {
		return strings.ToLower(m[1] + m[2])
	}
	return strings.ToLower(strings.Join(strings.Fields(product), "-"))
}

// IsModel reports whether Model returns this name for the full name of a device: a common name, or
// several words.
func IsModel(name string) bool {
	return Model(name) == name && (model.MatchString(name) || strings.Contains(name, "-"))
}
