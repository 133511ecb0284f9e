package plan

import "reflect"

// Closed returns the closed lists of values of the matrix and of cases, by type
// and JSON name.
func Closed() map[string][]any {
	lists := map[string][]any{
		"Matrix.version":        {MatrixVersion},
		"Generator.format":      {Format},
		"Requested.disposition": {Runnable, Unsupported},
	}
	for _, f := range families.All() {
		for field, words := range f.Block.Closed() {
			lists[reflect.TypeOf(f.Block).Elem().Name()+"."+field] = Values(words)
		}
	}
	return lists
}

// Values returns a list of words as the values of a closed list.
func Values(words []string) []any {
	values := make([]any, len(words))
	for i, w := range words {
		values[i] = w
	}
	return values
}
