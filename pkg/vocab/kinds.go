package vocab

import "maps"

// kinds are the closed lists by name. `in` tags of the fields of definitions, cases and
// documents use the names.
var kinds = map[string][]string{
	"vendor": Vendors(),
	"scope":  Scopes(),

	"op":           Ops(),
	"dtype":        DTypes(),
	"redop":        RedOps(),
	"placement":    Placements(),
	"timing mode":  TimingModes(),
	"buffers":      BufferStates(),
	"registration": Registrations(),

	"lane":   Lanes(),
	"handle": Handles(),
}

// Register adds a closed list. It is for init functions, and panics if there is one of that
// name.
func Register(kind string, words ...string) {
	if kinds[kind] != nil {
		panic("vocab: two closed lists are called " + kind)
	}
	kinds[kind] = words
}

// Kinds returns the closed lists by name.
func Kinds() map[string][]string { return maps.Clone(kinds) }
