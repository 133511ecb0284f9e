package catalog

// Sizes is a ladder of message sizes: From, From·Factor, … up to To.
type Sizes struct {
	From   Bytes `yaml:"from" min:"1"`
	To     Bytes `yaml:"to" min:"1"`
	Factor int   `yaml:"factor" min:"2"`
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
