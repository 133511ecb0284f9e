package inventory

import (
	"regexp"
	"slices"
	"strings"
)

const infiniband = "sys/class/infiniband"

// Published forms. Anything else is left empty.
var (
	adapterType = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{1,23}$`)
	linkRate    = regexp.MustCompile(`^[0-9.]+ Gb/sec( \([0-9A-Z ]+\))?$`)
	firmware    = regexp.MustCompile(`^[0-9]+(\.[0-9]+){1,3}$`)
)

// readNICs counts the ports of RDMA adapters by their kind.
func (r *Reader) readNICs() []NIC {
	var nics []NIC
	for _, adapter := range r.root.List(infiniband) {
		for _, port := range r.root.List(infiniband, adapter, "ports") {
			n := NIC{
				Adapter:   form(adapterType, r.root.Text(infiniband, adapter, "hca_type")),
				LinkLayer: form(adapterType, r.root.Text(infiniband, adapter, "ports", port, "link_layer")),
				Rate:      form(linkRate, r.root.Text(infiniband, adapter, "ports", port, "rate")),
				Active:    strings.HasSuffix(r.root.Text(infiniband, adapter, "ports", port, "state"), "ACTIVE"),
				Firmware:  form(firmware, r.root.Text(infiniband, adapter, "fw_ver")),
			}
			if i := slices.IndexFunc(nics, func(o NIC) bool { o.Count = 0; return o == n }); i >= 0 {
				nics[i].Count++
				continue
			}
			n.Count = 1
			nics = append(nics, n)
		}
	}
	return nics
}

func form(re *regexp.Regexp, text string) string {
	if re.MatchString(text) {
		return text
	}
	return ""
}
