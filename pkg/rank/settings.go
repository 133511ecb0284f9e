package rank

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/collectivex/collectivex/pkg/affinity"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// Settings holds what affects the libraries of a rank. The values are private; see
// provenance.Screen.Environment.
type Settings struct {
	// Environment has the variables that the rank was started with: those that change what libraries do, and those of
	// its case. It is nil only if the rank has not reported its settings.
	Environment map[string]string `json:"environment"`
	// Variables come from the settings files of libraries, or are for the dynamic loader and the C library.
	Variables map[string]string `json:"variables,omitempty"`
	// Host has the facts about the machine of the rank that documents contain.
	Host map[string]string `json:"host,omitempty"`
	// Processors are the processors that the launcher left to the rank; nil if it may use all that are online.
	Processors []int `json:"processors,omitempty"`

	found []variable
}

// variable is one of Settings.Variables. file sets it, or is "" if the environment of the process does.
type variable struct{ name, value, file string }

// SettingsHere returns the settings of this process now.
func SettingsHere() (s Settings) {
	s.Processors, s.found = processors(), slices.Concat(ofNCCL(), ofUCX(dl.Loaded("libucs").Path()), ofLoader())
	for _, v := range s.found {
		if s.Variables == nil {
			s.Variables = map[string]string{}
		}
		s.Variables[v.name] = v.value
	}
	return s
}

// settled calls run, and reports the settings of this process before it and after, since run may load libraries.
func (s *Session) settled(log io.Writer, run func() error) error {
	if err := s.settle(log); err != nil {
		return err
	}
	return errors.Join(run(), s.settle(log))
}

// settle reports the settings in the stream if they have changed, and writes them with their files to log.
func (s *Session) settle(log io.Writer) error {
	now := SettingsHere()
	now.Environment, now.Host = startedWith(s.planned), host()
	raw, err := json.Marshal(now)
	if err != nil || string(raw) == s.settings || s.note == nil {
		return err
	}
	s.settings = string(raw)
	for _, v := range now.found {
		fmt.Fprintf(log, "setting %s=%s from %s\n", v.name, v.value, cmp.Or(v.file, "the environment"))
	}
	return s.note(Record{Kind: kindSetting, Data: raw})
}

// host describes this machine. A text that does not have its published form is withheld.
var host = sync.OnceValue(func() map[string]string {
	name, _ := os.Hostname() // the shard screens documents, too
	return provenance.Host(sysfs.Here(), provenance.ScreenOf(name, environ()))
})

// environ is the environment that this process was started with. Runners may add to it later.
var environ = sync.OnceValue(os.Environ)

// startedWith returns the relevant part of environ, and the variables in it that are planned.
func startedWith(planned map[string]string) map[string]string {
	found := map[string]string{}
	for _, kv := range environ() {
		name, value, _ := strings.Cut(kv, "=")
		if _, is := planned[name]; is || len(provenance.Relevant([]string{kv})) > 0 {
			found[name] = value
		}
	}
	return found
}

// ofNCCL returns the variables that NCCL or RCCL, of any version, read from its files. The library adds them to the
// environment of the process, which os.LookupEnv does not see, unless they are set already. Each variable comes from
// the first file that has its value: versions differ in the files that they read, but not in the order.
func ofNCCL() (found []variable) {
	set := map[string]string{}
	for _, kv := range provenance.Relevant(dl.Environ()) {
		name, value, _ := strings.Cut(kv, "=")
		if _, inherited := os.LookupEnv(name); !inherited {
			set[name] = value
		}
	}
	if len(set) == 0 {
		return nil
	}
	homes := []string{os.Getenv("HOME")} // NCCL 2.30 and later; earlier ones and RCCL use the account's home
	if account, err := user.Current(); err == nil {
		homes = append(homes, account.HomeDir)
	}
	files := []string{os.Getenv("NCCL_CONF_FILE")}
	for _, home := range homes {
		files = append(files, filepath.Join(home, ".nccl.conf"), filepath.Join(home, ".rccl.conf"))
	}
	for _, file := range append(files, "/etc/nccl.conf", "/etc/rccl.conf") {
		for line := range lines(file) {
			name, value, assigns := strings.Cut(line, "=")
			if now, is := set[name]; assigns && is && now == value {
				found = append(found, variable{name, value, file})
				delete(set, name)
			}
		}
	}
	return found
}

// ofUCX returns the variables that UCX read from its files; the last file counts. It returns nothing if library, the
// path of UCX's libucs, is empty. It omits sections for certain processors or machines, which are part of UCX.
func ofUCX(library string) []variable {
	if library == "" {
		return nil
	}
	const name = "ucx.conf"
	found := map[string]variable{}
	for _, dir := range []string{"/etc/ucx", filepath.Join(filepath.Dir(library), "../etc/ucx"), os.Getenv("HOME"), os.Getenv("UCX_CONFIG_DIR"), "."} {
		if dir == "" {
			continue
		}
		conditional := false // in a section that begins with keys other than variables
		file := filepath.Join(dir, name)
		for line := range lines(file) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " ;")
			key, value, assigns := strings.Cut(line, "=")
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			_, inherited := os.LookupEnv(key)
			switch {
			case strings.HasPrefix(line, "["):
				conditional = false
			case assigns && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";"):
				conditional = conditional || !strings.HasPrefix(key, "UCX_")
				if !conditional && !inherited {
					found[key] = variable{key, value, file}
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b variable) int { return cmp.Compare(a.name, b.name) })
}

// preloaded is the file with the libraries that the dynamic loader loads into every process.
const preloaded = "/etc/ld.so.preload"

// ofLoader returns the variables of the dynamic loader and the C library. It adds the build id to each preloaded
// library.
func ofLoader() (found []variable) {
	if value := os.Getenv(provenance.Tunables); value != "" {
		found = append(found, variable{name: provenance.Tunables, value: value})
	}
	v := variable{name: provenance.Preload}
	libraries := strings.Fields(strings.ReplaceAll(os.Getenv(v.name), ":", " "))
	for line := range lines(preloaded) {
		v.file = preloaded
		libraries = append(libraries, strings.Fields(line)...)
	}
	if len(libraries) == 0 {
		return found
	}
	for i, library := range libraries {
		libraries[i] = library + ":" + dl.Loaded(filepath.Base(library)).BuildID()
	}
	v.value = strings.Join(libraries, " ")
	return append(found, v)
}

// maxSettings is the maximum size of a settings file, in bytes.
const maxSettings = 1 << 20

// lines yields the lines of a file, none if it cannot be read.
func lines(file string) iter.Seq[string] {
	raw, _ := safefile.Read(file, maxSettings) // a library that cannot read it ignores it, too
	return func(yield func(string) bool) {
		for line := range strings.Lines(string(raw)) {
			if !yield(strings.TrimRight(line, "\r\n")) {
				return
			}
		}
	}
}

// processors returns the processors that the first thread that called it was allowed to use at that time, or nil if
// these were all that are online.
var processors = sync.OnceValue(func() []int {
	allowed, err := affinity.Allowed()
	if online := sysfs.Here().OnlineCPUs(); err != nil || len(allowed) >= len(online) {
		return nil
	}
	return allowed
})
