package plan

import "strconv"

// ID returns the id of the case, computed from its fields. Every CaseID comes from here, and every reader
// recomputes it. Factors are lower case, joined by one dash:
//
//	{sku}-{backend}-{factors of the family}[-r{repeat}]
//
// Defaults, such as the first repeat, are omitted, so that cases that CollectiveX plans have its ids.
// docs/definitions.md lists the factors of each family. The case must have its block.
func (c *Case) ID() string {
	factors := c.Block.Factors(c, []string{c.SKU, c.Backend})
	if c.Repeat > 1 {
		factors = append(factors, "r"+strconv.Itoa(c.Repeat))
	}
	return Slug(factors...)
}

// Upstream reports whether CollectiveX itself plans the case. Others are in requested_other and have a
// record type that the public dashboard skips.
func (c *Case) Upstream() bool {
	f, ok := families.Find(string(c.Family))
	return ok && f.Upstream != nil && f.Upstream(c)
}

// Slug joins the factors of an id: lower case, runs of characters outside a–z
// and 0–9 become one '-', none at either end.
func Slug(factors ...string) string {
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
