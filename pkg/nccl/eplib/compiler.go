package eplib

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The library compiles its kernels with nvcc, when they are first needed. A sourceDir is a variable that
// names a directory, and file what the compiler reads below it.
type sourceDir struct{ variable, file, what, install string }

// sourceDirs are those of the library's sources and of NCCL's headers.
var sourceDirs = []sourceDir{
	{"NCCL_EP_HOME", "include/nccl_ep", "the sources of its kernels", "install the wheel nccl-extensions"},
	{"NCCL_HOME", "include/nccl.h", "NCCL's headers", "install the wheel nvidia-nccl-cu13"},
}

// SetSourceDirs sets the variables that lead the run-time compiler to the sources and headers beside both
// libraries, unless they are set. A rank calls it: other processes would hand the variables to their children.
func (l *Library) SetSourceDirs() error {
	for i, library := range []string{l.Path(), l.nccl.Path()} {
		d := sourceDirs[i]
		if os.Getenv(d.variable) != "" {
			continue
		}
		for dir := filepath.Dir(library); dir != "/" && dir != "."; dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, d.file)); err != nil {
				continue
			}
			if err := os.Setenv(d.variable, dir); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// compilerLacks returns what the library's compiler needs and does not find, with what to do, or how
// to learn why it failed.
func compilerLacks() error {
	var lacks []string
	if !compilerFound() {
		lacks = append(lacks, "nvcc (install the CUDA toolkit, or set CUDA_HOME)")
	}
	for _, d := range sourceDirs {
		if _, err := os.Stat(filepath.Join(os.Getenv(d.variable), d.file)); os.Getenv(d.variable) == "" || err != nil {
			lacks = append(lacks, fmt.Sprintf("%s (%s, or set %s to a directory with %s)", d.what, d.install, d.variable, d.file))
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("its run-time compiler lacks %s", strings.Join(lacks, " and "))
	}
	return errors.New("if its run-time compiler failed, NCCL_EP_JIT_LOG=1 logs why")
}

// compilerFound reports whether there is an nvcc where the library looks for it.
func compilerFound() bool {
	nvcc := cmp.Or(os.Getenv("NCCL_EP_JIT_NVCC"), os.Getenv("NVCC"))
	if cuda := cmp.Or(os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH")); nvcc == "" && cuda != "" {
		if at := filepath.Join(cuda, "bin", "nvcc"); executable(at) {
			return true
		}
	}
	if nvcc = cmp.Or(nvcc, "nvcc"); strings.Contains(nvcc, "/") {
		return executable(nvcc)
	}
	return slices.ContainsFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool { return executable(filepath.Join(dir, nvcc)) })
}

// executable reports whether there is a program at a path.
func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
