package rank

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Settings is what changes the libraries of a rank beside the variables that its launcher set. The values are
// private; see provenance.Screen.Environment.
type Settings struct {
	// Variables are in effect because of a settings file of a library, or for the dynamic loader and the C
	// library.
	Variables map[string]string `json:"variables,omitempty"`
	// Processors are those that the launcher left to the rank; nil if it may use all that are online.
	Processors []int `json:"processors,omitempty"`

	found []variable
}

// variable is one of Settings, and the file that sets it; "" if a variable of the process does.
type variable struct{ name, value, file string }

// SettingsHere returns the settings of this process now.
func SettingsHere() (s Settings) {
	own := map[string]string{}
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		own[name] = value
	}
	s.Processors, s.found = processors(), slices.Concat(ofNCCL(own), ofUCX(own, dl.Loaded("libucs").Path()), ofLoader(own))
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
	raw, err := json.Marshal(now)
	if err != nil || string(raw) == cmp.Or(s.settings, "{}") || s.note == nil {
		return err
	}
	s.settings = string(raw)
	for _, v := range now.found {
		fmt.Fprintf(log, "setting %s=%s from %s\n", v.name, v.value, cmp.Or(v.file, "the environment"))
	}
	return s.note(Record{Kind: kindSetting, Data: raw})
}

// ofNCCL returns what NCCL or RCCL of any version read from its files: it puts a variable that is not set into the
// environment of the process, where the value shows that a file counted. Versions differ in the files that
// they read, but not in their order.
func ofNCCL(own map[string]string) (found []variable) {
	set := map[string]string{}
	for _, kv := range provenance.Relevant(dl.Environ()) {
		name, value, _ := strings.Cut(kv, "=")
		if _, inherited := own[name]; !inherited {
			set[name] = value
		}
	}
	if len(set) == 0 {
		return nil
	}
	homes := []string{own["HOME"]} // since NCCL 2.30; before, and in RCCL, that of the account
	if account, err := user.Current(); err == nil {
		homes = append(homes, account.HomeDir)
	}
	files := []string{own["NCCL_CONF_FILE"]}
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

// ofUCX returns what UCX read from its files, of which the last one counts; nothing if library, the path of its
// libucs, is empty. It leaves out sections for some processors or machines: UCX brings them along.
func ofUCX(own map[string]string, library string) []variable {
	if library == "" {
		return nil
	}
	const name = "ucx.conf"
	found := map[string]variable{}
	for _, dir := range []string{"/etc/ucx", filepath.Join(filepath.Dir(library), "../etc/ucx"), own["HOME"], own["UCX_CONFIG_DIR"], "."} {
		special := false
		file := filepath.Join(dir, name)
		for line := range lines(file) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " ;")
			key, value, assigns := strings.Cut(line, "=")
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			_, inherited := own[key]
			switch {
			case strings.HasPrefix(line, "["):
				special = false
			case assigns && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";"):
				special = special || !strings.HasPrefix(key, "UCX_")
				if !special && !inherited && dir != "" {
					found[key] = variable{key, value, file}
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b variable) int { return cmp.Compare(a.name, b.name) })
}

// preloaded is the file with the libraries that the dynamic loader loads into every process.
const preloaded = "/etc/ld.so.preload"

// ofLoader returns what the dynamic loader and the C library read. It adds to each library its build id.
func ofLoader(own map[string]string) (found []variable) {
	if value := own[provenance.Tunables]; value != "" {
		found = append(found, variable{name: provenance.Tunables, value: value})
	}
	v := variable{name: provenance.Preload}
	libraries := strings.Fields(strings.ReplaceAll(own[v.name], ":", " "))
	for line := range lines(preloaded) {
		v.file = preloaded
		libraries = append(libraries, strings.Fields(line)...)
	}
	for _, library := range libraries {
		v.value += " " + library + ":" + dl.Loaded(filepath.Base(library)).BuildID()
	}
	if v.value == "" {
		return found
	}
	v.value = v.value[1:]
	return append(found, v)
}

// maxSettings is the maximum size of a settings file, in bytes.
const maxSettings = 1 << 20

// lines yields the lines of a file, none if it cannot be read.
func lines(file string) func(yield func(string) bool) {
	raw, _ := safefile.Read(file, maxSettings) // a library that cannot read it ignores it, too
	return func(yield func(string) bool) {
		for line := range strings.Lines(string(raw)) {
			if !yield(strings.TrimRight(line, "\r\n")) {
				return
			}
		}
	}
}

// processors returns the processors that the thread which called it first could use then, or nil if these were all
// that are online.
var processors = sync.OnceValue(func() []int {
	allowed, err := affinity.Allowed()
	if online := sysfs.Here().OnlineCPUs(); err != nil || len(allowed) >= len(online) {
		return nil
	}
	return allowed
})
