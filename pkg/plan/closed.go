package plan

// Closed returns the closed lists of values of the matrix and of cases, by type
// and JSON name.
func Closed() map[string][]any {
	return map[string][]any{
		"Matrix.version":          {MatrixVersion},
		"Generator.format":        {Format},
		"Requested.disposition":   {Runnable, Unsupported},
		"Collective.registration": {"none", "local", "symmetric"},
		"Collective.buffers":      {"cold", "warm", "shifted"},
		"EP.mode":                 {"normal", "low-latency"},
		"EP.phase":                {"decode", "prefill"},
	}
}
