// Package cuda opens NVIDIA devices through the driver API. It uses the primary context of
// a device, which the CUDA runtime, NCCL and torch use too.
package cuda

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/dl"
)

// driver lists where to find libcuda.
var driver = dl.Search{
	What:  "CUDA driver",
	Env:   "CX_CUDA_LIB",
	Names: []string{"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"},
}

// Load finds and initialises the CUDA driver.
func Load() (*gpu.Driver, error) { return gpu.Load(vendor()) }

// Attribute numbers of CUdevice_attribute.
const (
	attrMultiprocessors = 16
	attrL2Bytes         = 38
	attrMajor           = 75
	attrMinor           = 76
	attrVMM             = 102
	attrVMMFile         = 103
	attrVMMFabric       = 128
)

// hints maps an error code of cuInit to advice for the user.
var hints = map[int]string{
	100: "check CUDA_VISIBLE_DEVICES; in a container, start it with --gpus all",                                                     // NO_DEVICE
	802: "start nvidia-fabricmanager, of the driver's version, and wait until nvidia-smi -q shows Fabric State: Completed",          // SYSTEM_NOT_READY
	803: "libcuda and the kernel driver are of different releases: restart after an update; in a container, use the host's libcuda", // SYSTEM_DRIVER_MISMATCH
	999: "load nvidia_uvm with nvidia-modprobe -u -c 0, or give /dev/nvidia-uvm to the container; dmesg has the driver's messages",  // UNKNOWN
}

func vendor() gpu.Vendor {
	return gpu.Vendor{
		Name:    "nvidia",
		Driver:  driver,
		Dialect: gpu.CUDA,
		Hints:   hints,
		Numbers: gpu.Numbers{Multiprocessors: attrMultiprocessors, L2Bytes: attrL2Bytes, VMM: attrVMM, VMMFile: attrVMMFile, VMMFabric: attrVMMFabric},
		Version: func(code int) string { return fmt.Sprintf("CUDA %d.%d", code/1000, code%1000/10) },
		Arch: func(d *gpu.Driver, index int) (string, error) {
			major, err := d.Attribute(attrMajor, index)
			if err != nil {
				return "", err
			}
			minor, err := d.Attribute(attrMinor, index)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("sm_%d%d", major, minor), nil
		},
		Compiler: func(code int) gpu.CompilerVendor { return compiler(code / 1000) },
	}
}

// OpenCompiler opens NVRTC for compiling without a device.
func OpenCompiler() (*gpu.Compiler, error) { return gpu.OpenCompiler(compiler(newestNVRTC)) }

// newestNVRTC is the latest major version of NVRTC that compiler knows.
const newestNVRTC = 13

// compiler returns NVRTC of at most the driver's major version: a driver cannot load images
// from a compiler of a later major version.
func compiler(major int) gpu.CompilerVendor {
	var names []string
	for _, v := range []struct {
		major  int
		soname string
	}{
		{13, "libnvrtc.so.13"},
		{12, "libnvrtc.so.12"},
		{11, "libnvrtc.so.11.2"},
	} {
		if v.major <= major {
			names = append(names, v.soname, "/usr/local/cuda/lib64/"+v.soname, fmt.Sprintf("/usr/local/cuda-%d*/lib64/%s", v.major, v.soname))
		}
	}
	return gpu.CompilerVendor{
		Name:      "NVRTC",
		Library:   dl.Search{What: "CUDA run-time compiler (NVRTC)", Env: "CX_NVRTC_LIB", Names: names},
		Companion: "libnvrtc-builtins.so.*",
		Dialect:   gpu.CUDA,
		// Multiplication and addition are not fused, so that kernels and host compute the
		// same bits. Headers of libraries declare functions of the host without saying so.
		Options: func(arch string) []string {
			return []string{"--gpu-architecture=" + arch, "--std=c++17", "--fmad=false", "--device-as-default-execution-space"}
		},
	}
}
