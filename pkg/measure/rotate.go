package measure

import "slices"

// Rotate returns list in the order of a trial (from 0). For n values, the result is the
// list rotated left by trial mod n. If trial div n is odd, the list is reversed first.
// Over 2n trials, each value takes every position, with each of its neighbours on either
// side.
func Rotate[T any](list []T, trial int) []T {
	n := len(list)
	if n == 0 {
		return nil
	}
	out := slices.Clone(list)
	if trial/n%2 == 1 {
		slices.Reverse(out)
	}
	offset := trial % n
	return append(out[offset:n:n], out[:offset]...)
}
