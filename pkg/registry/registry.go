// Package registry keeps the descriptors of a layer: those of its own table, and those that other
// packages add before the first use.
package registry

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// Table holds descriptors in order, each under its own name.
type Table[T any] struct {
	name func(T) string
	all  []T
	used atomic.Bool
}

// New makes a table. name returns the name of a descriptor.
func New[T any](name func(T) string, all ...T) *Table[T] {
	t := &Table[T]{name: name}
	for _, d := range all {
		t.Add(d)
	}
	return t
}

// Add appends a descriptor; it is for init functions. It panics if the name is already registered,
// or if the table has been read, since a reader may have kept the earlier list.
func (t *Table[T]) Add(d T) {
	name := t.name(d)
	switch {
	case t.used.Load():
		panic(fmt.Sprintf("%T %q is registered after the table was read", d, name))
	case slices.ContainsFunc(t.all, func(other T) bool { return t.name(other) == name }):
		panic(fmt.Sprintf("%T %q is registered twice", d, name))
	}
	t.all = append(t.all, d)
}

// All returns the descriptors in the order of their registration.
func (t *Table[T]) All() []T {
	if !t.used.Load() { // a store from many goroutines is slow
		t.used.Store(true)
	}
	return t.all
}

// Find returns the descriptor of a name, and whether there is one.
func (t *Table[T]) Find(name string) (T, bool) {
	all := t.All()
	if i := slices.IndexFunc(all, func(d T) bool { return t.name(d) == name }); i >= 0 {
		return all[i], true
	}
	var none T
	return none, false
}
