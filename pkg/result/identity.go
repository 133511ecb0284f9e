package result

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/collectivex/collectivex/pkg/plan"
)

// comparisonFactors is everything that must match before two documents may be compared. Rows are matched by
// tokens per rank or bytes, so it excludes ladders, except for what a row's time takes from other rungs;
// it also excludes the suite, the repeat, and the SKU, whose product and fabric are in the topology
// class. The library's version is separate (implementation.library_version), so that old and new can be
// compared. These factors are followed by the relevant part of the block, under the name of the family,
// and by environment, the environment of the ranks.
type comparisonFactors struct {
	Family            plan.Family       `json:"family"`
	Backend           string            `json:"backend"`
	World             int               `json:"world"`
	Nodes             int               `json:"nodes"`
	GPUsPerNode       int               `json:"gpus_per_node"`
	ScaleUpDomain     int               `json:"scale_up_domain"`
	ScaleUpTransport  string            `json:"scale_up_transport"`
	ScaleOutTransport *string           `json:"scale_out_transport"`
	TopologyClass     string            `json:"topology_class"`
	Precision         string            `json:"precision"`
	Contract          string            `json:"contract"`
	Sampling          string            `json:"sampling"`
	Env               map[string]string `json:"env"` // of the case itself
}

// ComparisonKey returns a key that is equal exactly if two cases, each with the published part of its
// environment, may be compared: the first 32 hexadecimal digits of the SHA-256 of the factors as JSON.
func ComparisonKey(c plan.Case, environment map[string]string) (string, error) {
	text, err := factorText(c, environment)
	if err != nil {
		return "", err
	}
	return Hashed(text), nil
}

// Settled returns the case on which the comparison key of a document is based: its own, with the ranks'
// choices filled in.
func Settled(d Document) plan.Case {
	c := d.Head().Identity.Case
	if family, err := familyOf(&c); err == nil && family.Settled != nil {
		return family.Settled(d)
	}
	return c
}

// ComparisonFactors returns the values over which the comparison key is a hash: each factor as JSON by its
// name, such as world, ep.hidden or environment.NCCL_ALGO. Cases with equal factors have the same key.
func ComparisonFactors(c plan.Case, environment map[string]string) (map[string]string, error) {
	text, err := factorText(c, environment)
	if err != nil {
		return nil, err
	}
	var tree map[string]json.RawMessage
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	flat := map[string]string{}
	flatten(flat, "", tree)
	return flat, nil
}

// flatten adds the members of tree, and of the objects in it, under their paths.
func flatten(flat map[string]string, prefix string, tree map[string]json.RawMessage) {
	for name, value := range tree {
		var inner map[string]json.RawMessage
		if json.Unmarshal(value, &inner) == nil && inner != nil {
			flatten(flat, prefix+name+".", inner)
			continue
		}
		flat[prefix+name] = string(value)
	}
}

// factorText returns the factors as JSON.
func factorText(c plan.Case, environment map[string]string) ([]byte, error) {
	family, err := familyOf(&c)
	if err != nil {
		return nil, err
	}
	if environment == nil {
		environment = map[string]string{}
	}
	head, err := json.Marshal(comparisonFactors{
		Family: c.Family, Backend: c.Backend, World: c.World, Nodes: c.Nodes,
		GPUsPerNode: c.GPUsPerNode, ScaleUpDomain: c.ScaleUpDomain,
		ScaleUpTransport: c.ScaleUpTransport, ScaleOutTransport: c.ScaleOutTransport,
		TopologyClass: c.TopologyClass, Precision: c.Precision, Contract: c.Contract,
		Sampling: c.Sampling, Env: c.Env,
	})
	if err != nil {
		return nil, err
	}
	block, err := json.Marshal(family.Comparison(&c))
	if err != nil {
		return nil, err
	}
	env, err := json.Marshal(environment)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s,%q:%s,%q:%s}", head[:len(head)-1], c.Family, block, "environment", env), nil
}

// Hashed returns the first 32 hexadecimal digits of the SHA-256 of text.
func Hashed(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
