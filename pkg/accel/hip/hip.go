// Package hip opens AMD devices through the HIP runtime, version 6.0 or newer.
package hip

import (
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/dl"
)

// runtimeLibrary lists where to find libamdhip64.
var runtimeLibrary = dl.Search{
	What: "HIP runtime",
	Env:  "CX_HIP_LIB",
	Names: []string{
		"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so",
		"/opt/rocm/lib/libamdhip64.so", "/opt/rocm-*/lib/libamdhip64.so",
	},
}

// Load finds and initialises the HIP runtime.
func Load() (*gpu.Driver, error) { return gpu.Load(vendor()) }

// Attribute numbers of hipDeviceAttribute_t.
const (
	attrL2Bytes         = 19
	attrMultiprocessors = 63
	attrVMM             = 89
)

// hipDeviceProp_tR0600 has 1472 bytes. The buffer has room for fields that later versions
// append.
const (
	propertyBytes = 4096
	archOffset    = 1160 // gcnArchName
	archBytes     = 256
)

// hints maps an error code of hipInit to advice for the user.
var hints = map[int]string{
	100: "check HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES; in a container, start it with --device /dev/kfd --device /dev/dri", // NoDevice
	999: "check that this user may open /dev/kfd (groups render and video); dmesg has the driver's messages",                     // Unknown
}

func vendor() gpu.Vendor {
	return gpu.Vendor{
		Name:    "amd",
		Driver:  runtimeLibrary,
		Dialect: gpu.HIP,
		Hints:   hints,
		Numbers: gpu.Numbers{Multiprocessors: attrMultiprocessors, L2Bytes: attrL2Bytes, VMM: attrVMM},
		Version: func(code int) string { return fmt.Sprintf("HIP %d.%d", code/10_000_000, code/100_000%100) },
		Arch: func(d *gpu.Driver, index int) (string, error) {
			properties := make([]byte, propertyBytes)
			if err := d.Properties(properties, index); err != nil {
				return "", err
			}
			arch := gpu.CString(properties[archOffset : archOffset+archBytes])
			if !strings.HasPrefix(arch, "gfx") {
				return "", fmt.Errorf("HIP reports architecture %q, want gfx…: the layout of its device properties is not that of HIP 6 or 7", arch)
			}
			return arch, nil
		},
		Compiler: func(int) gpu.CompilerVendor { return compiler() },
	}
}

// OpenCompiler opens HIPRTC for compiling without a device.
func OpenCompiler() (*gpu.Compiler, error) { return gpu.OpenCompiler(compiler()) }

func compiler() gpu.CompilerVendor {
	return gpu.CompilerVendor{
		Name: "HIPRTC",
		Library: dl.Search{
			What: "HIP run-time compiler (HIPRTC)",
			Env:  "CX_HIPRTC_LIB",
			Names: []string{
				"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so",
				"/opt/rocm/lib/libhiprtc.so", "/opt/rocm-*/lib/libhiprtc.so",
			},
		},
		Dialect: gpu.HIP,
		// Multiplication and addition are not fused, so that kernels and host compute the
		// same bits.
		Options: func(arch string) []string {
			return []string{"--offload-arch=" + arch, "-std=c++17", "-ffp-contract=off"}
		},
	}
}
