package compare

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// student is Student's t distribution with that many degrees of freedom. gonum's stat/distuv has it as well, with
// 2 MB of linear algebra that cxrun would contain.
type student float64

// twoSided returns the probability of a value beyond ±x, for x of at least 0.
func (n student) twoSided(x float64) float64 {
	return mathext.RegIncBeta(float64(n)/2, 0.5, float64(n)/(x*x+float64(n)))
}

// quantile returns the value that a sample stays below with probability p, for p of more than 1/2.
func (n student) quantile(p float64) float64 {
	t := mathext.InvRegIncBeta(float64(n)/2, 0.5, 2*(1-p))
	return math.Sqrt(float64(n) * (1 - t) / t)
}
