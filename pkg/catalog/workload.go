package catalog

import "slices"

// Workload is the shape of an EP workload.
type Workload struct {
	Name    string   `yaml:",name"`
	Hidden  int      `yaml:"hidden" min:"32" max:"1048576"`
	TopK    int      `yaml:"topk" min:"1"`
	Experts int      `yaml:"experts" min:"1" max:"1048576"`
	Seed    uint64   `yaml:"seed"`
	Ladders []Ladder `yaml:"ladders"`
}

// Ladder lists tokens per rank of one phase, ascending.
type Ladder struct {
	Phase  string `yaml:",name" in:"phase"`
	Tokens []int  `yaml:",value" min:"1"`
}

// Routing names a rule by which tokens choose experts.
type Routing struct {
	Name        string `yaml:",name"`
	Description string `yaml:",value"`
}

func (w *Workload) check(c *Checker) {
	if w.TopK > w.Experts {
		c.Diagnose(&w.TopK, "topk %d exceeds the %d experts", w.TopK, w.Experts)
	}
	c.Ladders(w.Ladders)
}

// Ladders reports ladders that do not ascend.
func (c *Checker) Ladders(ls []Ladder) {
	for i := range ls {
		if !slices.IsSorted(ls[i].Tokens) {
			c.Diagnose(&ls[i].Tokens, "the %s ladder must ascend", ls[i].Phase)
		}
	}
}
