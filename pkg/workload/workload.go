// Package workload is what a benchmark moves: routing traces, activations, the
// stand-in for the experts, and exactly reducible data. All of it is a pure
// function of the case, the same on every machine.
package workload
