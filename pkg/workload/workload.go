// Package workload defines the data that a benchmark moves: routing traces, activations,
// stand-ins for experts, and data whose reductions are exact. All of it is a pure function
// of the case, and the same on every machine.
package workload
