package nccl

/*
#include "abi.h"

static int cx_lsa_ranks(const cx_nccl *f, cx_comm c) { return f->TeamLsa(c).nRanks; }
static int cx_properties(const cx_nccl *f, cx_comm c, cx_nccl_properties *p) { return f->CommQueryProperties(c, p); }
*/
import "C"

import (
	_ "embed" // system.cu, loads.cu
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/collectivex/collectivex/pkg/safefile"
)

// LSARanks returns how many ranks, with this one, load and store each other's windows from kernels: the size of
// NCCL's LSA team. It needs ncclTeamLsa.
func (c *Communicator) LSARanks() (int, error) {
	if err := c.lib.Need("ncclTeamLsa"); err != nil {
		return 0, err
	}
	return int(C.cx_lsa_ranks(c.lib.table, c.handle)), nil
}

// sinceGIN is the first version whose properties of a communicator have the layout that GIN reads.
const sinceGIN = 22907

// GIN returns what the library reports of GIN, its network for kernels, on the communicator, in a sentence.
func (c *Communicator) GIN() (string, error) {
	if c.lib.Need("ncclCommQueryProperties") != nil || c.lib.Version < sinceGIN {
		return fmt.Sprintf("%s %s does not report whether it has GIN", c.lib.Kind, c.lib.VersionString()), nil
	}
	p := C.cx_nccl_properties{size: C.sizeof_cx_nccl_properties, magic: configMagic, version: C.uint32_t(c.lib.Version)}
	if err := c.lib.Check("ncclCommQueryProperties", c.rank, Result(C.cx_properties(c.lib.table, c.handle, &p))); err != nil {
		return "", err
	}
	name, known := map[C.int32_t]string{0: "none", 2: "proxy", 3: "gdaki", 4: "gpi"}[p.ginType]
	if !known {
		name = fmt.Sprintf("type %d", p.ginType)
	}
	return fmt.Sprintf("%s reports the GIN of the communicator as %s", c.lib.Kind, name), nil
}

// includeVariable names the directory of NCCL's headers.
const includeVariable = "CX_NCCL_INCLUDE"

// The header that declares the library's version, and the one that has the addresses of windows in kernels. Others
// that they include are inlined from the same directory.
const (
	versionHeader = "nccl.h"
	deviceHeader  = "nccl_device/impl/core__funcs.h"
)

// Headers that others use without including them; utilityHeader has what loads.cu replaces.
const (
	utilityHeader = "nccl_device/utility.h"
	pointerHeader = "nccl_device/impl/ptr__funcs.h"
)

// maxHeader is the maximum size of a header in bytes.
const maxHeader = 1 << 20

//go:embed system.cu
var system string

//go:embed loads.cu
var loads string

// DeviceHeaders returns the installed headers of the library's device interface as source for a run-time compiler,
// which needs no other headers. It fails if they are missing or of another version than the library.
func (l *Library) DeviceHeaders() (string, error) {
	dirs := []string{os.Getenv(includeVariable)}
	if dirs[0] == "" {
		lib := filepath.Dir(l.Path())
		dirs = []string{filepath.Join(lib, "../include"), filepath.Join(lib, "../../include")}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, deviceHeader)); err == nil {
			return l.deviceHeaders(dir)
		}
	}
	return "", fmt.Errorf("%s of %s %s is not in %s: install the library's headers (libnccl-dev, or the wheel), or set %s to their directory",
		deviceHeader, l.Kind, l.VersionString(), strings.Join(dirs, " or "), includeVariable)
}

var versionCode = regexp.MustCompile(`(?m)^#define NCCL_VERSION_CODE (\d+)`)

func (l *Library) deviceHeaders(dir string) (string, error) {
	h := headers{dir: dir, seen: map[string]bool{}}
	h.text.WriteString(system)
	err := errors.Join(h.inline(versionHeader), h.inlineIfAny(utilityHeader))
	h.text.WriteString(loads)
	if err := errors.Join(err, h.inline(deviceHeader), h.inlineIfAny(pointerHeader)); err != nil {
		return "", err
	}
	text := h.text.String()
	want := fmt.Sprint(int(l.Version))
	if m := versionCode.FindStringSubmatch(text); m == nil || m[1] != want {
		return "", fmt.Errorf("%s is of another version than the library, %s: install both of one version, or set %s",
			filepath.Join(dir, versionHeader), l.VersionString(), includeVariable)
	}
	return text, nil
}

// headers is the text of NCCL's headers in a directory.
type headers struct {
	dir  string
	seen map[string]bool
	text strings.Builder
}

var includes = regexp.MustCompile(`^\s*#\s*include\s*["<]([^">]+)[">]`)

// inline adds a header, and in place of their first inclusion those of NCCL that it includes. It leaves out those of
// others, whose names system.cu declares.
func (h *headers) inline(name string) error {
	if h.seen[name] {
		return nil
	}
	h.seen[name] = true
	data, err := safefile.Read(filepath.Join(h.dir, name), maxHeader)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		m := includes.FindStringSubmatch(line)
		if m == nil {
			h.text.WriteString(line)
			continue
		}
		for _, of := range []string{path.Join(path.Dir(name), m[1]), m[1]} {
			if h.has(of) {
				err = errors.Join(err, h.inline(of))
				break
			}
		}
	}
	return err
}

func (h *headers) inlineIfAny(name string) error {
	if !h.has(name) {
		return nil
	}
	return h.inline(name)
}

// has reports whether a header is one of NCCL's, and in the directory.
func (h *headers) has(name string) bool {
	if name != versionHeader && !strings.HasPrefix(name, "nccl_device") {
		return false
	}
	_, err := os.Stat(filepath.Join(h.dir, name))
	return err == nil
}
