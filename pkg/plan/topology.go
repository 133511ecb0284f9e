package plan

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/catalog"
)

// scaleOutTransport is what joins scale-up domains.
const scaleOutTransport = "rdma"

// place fills in where world ranks of platform p run: packed onto as few nodes
// as hold them, one rank a device.
func (c *Case) place(p *catalog.Platform, world int) {
	c.SKU, c.World = p.SKU, world
	c.GPUsPerNode, c.ScaleUpDomain = p.GPUsPerNode, p.ScaleUp.Domain
	c.Nodes = p.Nodes(world)
	c.RanksPerNode = world / c.Nodes
	c.Scope = p.Scope(world)
	up := p.ScaleUp.Transport
	c.ScaleUpTransport, c.Transport = up, up
	switch {
	case c.Scope == catalog.ScopeOut:
		out := scaleOutTransport
		c.ScaleOutTransport = &out
		c.Transport = up + "-" + out
		c.TopologyClass = p.Product + "-" + up + "-" + out
	case up == "mnnvl":
		c.TopologyClass = fmt.Sprintf("%s-nvl%d-mnnvl", p.Product, p.ScaleUp.Domain)
	case up == "xgmi":
		c.TopologyClass = p.Product + "-xgmi"
	default:
		c.TopologyClass = p.Product + "-" + up + "-island"
	}
}

// slug joins the factors of an id: lower case, runs of characters outside a–z
// and 0–9 become one '-', none at either end.
func slug(factors ...string) string {
	id := make([]byte, 0, 96)
	for _, f := range factors {
		dash := len(id) > 0
		for _, r := range f {
			if r >= 'A' && r <= 'Z' {
				r += 'a' - 'A'
			}
			if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
				dash = len(id) > 0
				continue
			}
			if dash {
				id = append(id, '-')
				dash = false
			}
			id = append(id, byte(r))
		}
	}
	return string(id)
}
