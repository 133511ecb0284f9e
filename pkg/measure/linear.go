package measure

import "math"

// NonNegativeFit returns the parameters p >= 0 that minimize the sum of ((x·p − y)/y)²,
// for rows x with the same number of columns and y > 0. ok is false unless there are more
// rows than columns and the columns are linearly independent.
func NonNegativeFit(x [][]float64, y []float64) (p []float64, ok bool) {
	if len(x) == 0 || len(x) <= len(x[0]) {
		return nil, false
	}
	n := len(x[0])
	if _, ok := leastSquares(x, y, 1<<n-1); !ok {
		return nil, false
	}
	best := math.Inf(1)
	for columns := range 1 << n { // the optimum is the best solution over subsets of columns without a negative parameter
		q, ok := leastSquares(x, y, columns)
		if !ok {
			continue
		}
		var sum float64
		for i, row := range x {
			r := -1.0
			for k := range row {
				if q[k] < 0 {
					r = math.Inf(1)
				}
				r += row[k] * q[k] / y[i]
			}
			sum += r * r
		}
		if sum < best {
			best, p = sum, q
		}
	}
	return p, p != nil
}

// leastSquares solves for the parameters of the columns whose bits are set in columns. The
// other parameters are 0. ok is false if the columns are linearly dependent.
func leastSquares(x [][]float64, y []float64, columns int) (p []float64, ok bool) {
	n := len(x[0])
	scale := make([]float64, n) // columns differ by many orders of magnitude
	for i, row := range x {
		for k := range row {
			scale[k] += row[k] / y[i] * row[k] / y[i]
		}
	}
	a := make([][]float64, n)
	for j := range a {
		scale[j] = math.Sqrt(scale[j])
		a[j] = make([]float64, n+1)
		if columns>>j&1 == 0 {
			a[j][j] = 1
		}
	}
	for i, row := range x {
		for j := range n {
			if columns>>j&1 == 0 {
				continue
			}
			u := row[j] / y[i] / scale[j]
			for k := range n {
				if columns>>k&1 == 1 {
					a[j][k] += u * row[k] / y[i] / scale[k]
				}
			}
			a[j][n] += u
		}
	}
	for j := range n {
		pivot := j
		for i := j + 1; i < n; i++ {
			if math.Abs(a[i][j]) > math.Abs(a[pivot][j]) {
				pivot = i
			}
		}
		a[j], a[pivot] = a[pivot], a[j]
		if !(math.Abs(a[j][j]) > 1e-9) {
			return nil, false
		}
		for i := range n {
			if i == j {
				continue
			}
			f := a[i][j] / a[j][j]
			for k := j; k <= n; k++ {
				a[i][k] -= f * a[j][k]
			}
		}
	}
	p = make([]float64, n)
	for j := range n {
		p[j] = a[j][n] / a[j][j] / scale[j]
	}
	return p, true
}
