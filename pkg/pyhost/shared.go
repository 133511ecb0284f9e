package pyhost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/collectivex/collectivex/pkg/dl"
)

// debian maps the sonames of libraries that modules need to packages of Debian and Ubuntu.
var debian = map[string]string{
	"libcurl.so.4": "libcurl4", "libibverbs.so.1": "libibverbs1", "libnuma.so.1": "libnuma1",
	"libnl-3.so.200": "libnl-3-200", "libnl-route-3.so.200": "libnl-route-3-200",
}

// Remedy returns how to install the shared library that the loader reports as missing in message. It
// returns "" for any other message.
func Remedy(message string) string {
	before, _, ok := strings.Cut(message, ": cannot open shared object file")
	if !ok {
		return ""
	}
	name := before[strings.LastIndexByte(before, ' ')+1:]
	if p := debian[name]; p != "" {
		return "install " + p
	}
	return "install " + name + ", or name its directory in LD_LIBRARY_PATH"
}

// Unlinked returns an error if the loader does not find a shared library that an extension module of
// the environment needs. It returns nil if there is no such module. file is the path of the module
// below a directory of Path. The module itself is not loaded.
func (e *Environment) Unlinked(file string) error {
	for _, dir := range e.Path {
		path := filepath.Join(dir, file)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		names, err := dl.Imports(path)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, name := range names {
			l, err := dl.Open(name)
			if err != nil {
				return fmt.Errorf("%s needs %s: %s: %s", file, name, strings.TrimPrefix(err.Error(), dl.ErrNoLibrary.Error()+": "), Remedy(err.Error()))
			}
			if err := l.Close(); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}
