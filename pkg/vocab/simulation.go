package vocab

// Simulated is the origin of a time that follows from a model: nothing was measured.
const Simulated = "simulated"

// ContractMakespan is the contract of simulations: from the common start of all ranks to the
// end of the last, in the time of the model.
const ContractMakespan = "simulated-makespan-v1"

// Symbolic is the verification of a program that followed its data through its steps. No
// element was computed.
const Symbolic = "symbolic"
