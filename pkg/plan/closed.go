package plan

import "github.com/collectivex/collectivex/pkg/vocab"

// Closed returns the closed lists of values of the matrix and of cases, by type
// and JSON name.
func Closed() map[string][]any {
	return map[string][]any{
		"Matrix.version":          {MatrixVersion},
		"Generator.format":        {Format},
		"Requested.disposition":   {Runnable, Unsupported},
		"Collective.registration": Values(vocab.Registrations()),
		"Collective.buffers":      Values(vocab.BufferStates()),
		"EP.mode":                 Values(vocab.EPModes()),
		"EP.phase":                Values(vocab.Phases()),
	}
}

// Values returns a list of words as the values of a closed list.
func Values(words []string) []any {
	values := make([]any, len(words))
	for i, w := range words {
		values[i] = w
	}
	return values
}
