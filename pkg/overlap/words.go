package overlap

import "github.com/collectivex/collectivex/pkg/vocab"

// Forms of overlap: what computes beside what communicates.
const (
	// Beside is matrix products beside a collective; neither depends on the other.
	Beside = "beside"
	// LinearRotation is a column-parallel linear layer whose input arrives in chunks by
	// rotation: in step i rank r gets chunk r+i from its owner and sends its own to r−i.
	LinearRotation = "linear-rotation"
	// LinearBroadcast is the same layer with chunks by broadcast: in step i from rank i.
	LinearBroadcast = "linear-broadcast"
)

// Forms lists the forms of overlap.
var Forms = vocab.List("overlap form", Beside, LinearRotation, LinearBroadcast)

// What computes the matrix products of an overlap.
const (
	ComputeLoop      = "loop"      // a plain loop on a processor
	ComputeKernel    = "kernel"    // a kernel that is compiled at run time
	ComputeCUBLASLt  = "cublaslt"  // NVIDIA's library
	ComputeHIPBLASLt = "hipblaslt" // AMD's library
	// ComputeAuto is the vendor's library if it is installed, else the kernel. Only cases ask
	// for it: documents say which it was.
	ComputeAuto = "auto"
)

// Computes lists what computes matrix products.
var Computes = vocab.List("compute", ComputeLoop, ComputeKernel, ComputeCUBLASLt, ComputeHIPBLASLt, ComputeAuto)

// Contenders of an overlap, which take turns in each iteration. The whole ones do in one
// piece what a linear layer does in a piece for each rank.
const (
	OnlyCompute        = "compute"
	OnlyCommunication  = "communication"
	Together           = "together"
	Serial             = "serial" // the communication, then the computation
	WholeCompute       = "whole-compute"
	WholeCommunication = "whole-communication"
)

// Contenders lists the contenders of a form, in the order of documents.
func Contenders(form string) []string {
	all := []string{OnlyCompute, OnlyCommunication, Together, Serial, WholeCompute, WholeCommunication}
	if form == Beside {
		return all[:4]
	}
	return all
}

// SharedProcessor is what people are told of overlap that was measured without a processor for
// each side of a rank.
const SharedProcessor = "both sides of a rank share a processor: they take turns, and little can overlap"
