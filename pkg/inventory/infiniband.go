package inventory

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/sysfs"
)

const infiniband = "sys/class/infiniband"

// Patterns of texts that may be published. Other texts are omitted.
var (
	adapterType = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{1,23}$`)
	linkRate    = regexp.MustCompile(`^[0-9.]+ Gb/sec( \([0-9A-Z ]+\))?$`)
	firmware    = regexp.MustCompile(`^[0-9]+(\.[0-9]+){1,3}$`)
)

type port struct {
	root    sysfs.Root
	adapter string // its directory
	number  string
}

func (r *Reader) ports() (ports []port) {
	for _, adapter := range r.root.List(infiniband) {
		for _, number := range r.root.List(infiniband, adapter, "ports") {
			ports = append(ports, port{r.root, path.Join(infiniband, adapter), number})
		}
	}
	return ports
}

func (p port) text(name string) string { return p.root.Text(p.adapter, "ports", p.number, name) }

func (p port) active() bool { return strings.HasSuffix(p.text("state"), "ACTIVE") }

func (p port) counter(name string) uint64 {
	n, _ := p.root.Number(p.adapter, "ports", p.number, "counters", name)
	return uint64(n)
}

// readNICs counts the ports of RDMA adapters by their kind.
func (r *Reader) readNICs() []NIC {
	var nics []NIC
	for _, p := range r.ports() {
		n := NIC{
			Adapter:   form(adapterType, r.root.Text(p.adapter, "hca_type")),
			LinkLayer: form(adapterType, p.text("link_layer")),
			Rate:      form(linkRate, p.text("rate")),
			Active:    p.active(),
			Firmware:  form(firmware, r.root.Text(p.adapter, "fw_ver")),
		}
		if i := slices.IndexFunc(nics, func(o NIC) bool { o.Count = 0; return o == n }); i >= 0 {
			nics[i].Count++
			continue
		}
		n.Count = 1
		nics = append(nics, n)
	}
	return nics
}

func form(re *regexp.Regexp, text string) string {
	if re.MatchString(text) {
		return text
	}
	return ""
}
