package overlap

import "github.com/collectivex/collectivex/pkg/vocab"

// Forms of overlap, which determine the products and the communication.
const (
	// Beside has matrix products and collectives that do not depend on each other.
	Beside = "beside"
	// LinearRotation is a column-parallel linear layer whose input arrives in chunks by rotation. In
	// step i, rank r receives chunk r+i from its owner and sends its own chunk to rank r−i.
	LinearRotation = "linear-rotation"
	// LinearBroadcast is the same layer with chunks by broadcast, in step i from rank i.
	LinearBroadcast = "linear-broadcast"
)

// Forms lists the forms of overlap.
var Forms = vocab.List("overlap form", Beside, LinearRotation, LinearBroadcast)

// Means of computing the matrix products of an overlap.
const (
	ComputeLoop      = "loop"      // a plain loop on a processor
	ComputeKernel    = "kernel"    // a kernel that is compiled at run time
	ComputeCUBLASLt  = "cublaslt"  // NVIDIA's library
	ComputeHIPBLASLt = "hipblaslt" // AMD's library
	// ComputeAuto is the vendor's library if it is installed, else the kernel. Only cases may have it:
	// documents name the one that computed.
	ComputeAuto = "auto"
	// CopyIn and CopyOut copy a matrix from page-locked memory of the host, or to it, in the place of each product.
	CopyIn  = "host-to-device"
	CopyOut = "device-to-host"
)

// Computes lists the means of computing matrix products, and what runs in their place.
var Computes = vocab.List("compute", ComputeLoop, ComputeKernel, ComputeCUBLASLt, ComputeHIPBLASLt, ComputeAuto, CopyIn, CopyOut)

// Copies reports whether copies run in the place of matrix products.
func Copies(compute string) bool { return compute == CopyIn || compute == CopyOut }

// Contenders of an overlap, which take turns in each iteration. The whole ones do the work of one side
// of a linear layer in one piece. The others do it in one piece for each rank.
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

// SharedProcessor is the note for documents with Measurement.SharedProcessor.
const SharedProcessor = "both sides of a rank share a processor, so they take turns and little can overlap"
