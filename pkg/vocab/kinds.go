package vocab

import (
	"maps"
	"slices"
)

// kinds are the closed lists by name. `in` tags of the fields of definitions, cases and
// documents use the names.
var kinds = map[string][]string{}

// Register adds a closed list. Call it while packages are initialized: it panics if the name is
// taken.
func Register(kind string, words ...string) {
	if kinds[kind] != nil {
		panic("vocab: two closed lists are called " + kind)
	}
	kinds[kind] = words
}

// List calls Register, and returns a function that returns the words in their order.
func List(kind string, words ...string) func() []string {
	Register(kind, words...)
	return func() []string { return slices.Clone(words) }
}

// Kinds returns the closed lists by name.
func Kinds() map[string][]string { return maps.Clone(kinds) }
