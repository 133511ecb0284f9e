package simulation

import "github.com/collectivex/collectivex/pkg/vocab"

// Simulated is the origin of a time that follows from a model: nothing was measured.
const Simulated = "simulated"

// Symbolic is the verification of a program that followed its data through its steps. No
// element was computed.
const Symbolic = "symbolic"

func init() {
	vocab.Register("simulated origin", Simulated)
	vocab.Register("verification", Symbolic)
}
