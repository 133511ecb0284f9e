package nccl

import "fmt"

// Version is the code that ncclGetVersion returns. For version X.Y.Z of NCCL and RCCL it is
// X·1000+Y·100+Z up to 2.8, and X·10000+Y·100+Z from 2.9 on. For MSCCL++ it is
// X·10000+Y·100+Z, with MSCCL++'s own version.
type Version int

// v2_28 is the first release in which Config.NVLinkCentric may be set.
const v2_28 Version = 22800

// v2_29 is the first release in which Config.OneGraph may be set.
const v2_29 Version = 22900

// v2_31 is the first release whose calls take a configuration.
const v2_31 Version = 23100

// format returns v as x.y.z.
func (v Version) format(kind Kind) string {
	if kind != MSCCLPP && v >= 2000 && v < 10000 {
		return fmt.Sprintf("%d.%d.%d", v/1000, v%1000/100, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v%10000/100, v%100)
}
