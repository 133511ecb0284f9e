package measure

import "slices"

// Rotate returns list in the order of a trial (from 0). Over the trials, each value is in
// every position, with every neighbour on either side. For n values, cycle = trial div n
// and offset = trial mod n: the list in an even cycle, or its reverse in an odd one,
// rotated left by offset. Components and token ladders use the same rotation.
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
