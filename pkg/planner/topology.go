package planner

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// scaleOutTransport is what joins scale-up domains.
const scaleOutTransport = "rdma"

// place fills in where world ranks of platform p run: packed onto as few nodes
// as hold them, one rank a device.
func place(c *plan.Case, p *catalog.Platform, world int) {
	c.SKU, c.World = p.SKU, world
	c.GPUsPerNode, c.ScaleUpDomain = p.GPUsPerNode, p.ScaleUp.Domain
	c.Nodes = p.Nodes(world)
	c.RanksPerNode = world / c.Nodes
	c.Scope = p.Scope(world)
	up := p.ScaleUp.Transport
	c.ScaleUpTransport, c.Transport = up, up
	switch {
	case c.Scope == vocab.ScopeOut:
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
