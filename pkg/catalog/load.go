package catalog

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// All is the word that filters take for "no filter"; nothing may be called so.
const All = "all"

// Files and directories of the definitions.
const (
	backendsFile  = "backends.yaml"
	workloadsFile = "workloads.yaml"
	samplingFile  = "sampling.yaml"
	platformsDir  = "platforms"
	suitesDir     = "suites"
)

// loader is the state of one Load.
type loader struct {
	decoder
	fsys   fs.FS
	parsed map[string]parsed // by file
	cat    Catalog
	// broken has the kinds of names whose file could not be read, so that each
	// use of such a name is not reported too.
	broken map[string]bool
}

// Load reads the definitions in fsys. A non-nil error is of type Errors and
// lists everything that is wrong.
func Load(fsys fs.FS) (*Catalog, error) {
	l := &loader{fsys: fsys, broken: map[string]bool{}}
	l.pos = map[any]Pos{}
	l.faults = &Errors{}
	l.parsed = parseAll(fsys, l.layout())

	var backends struct {
		Backends []Backend `yaml:"backends"`
	}
	l.read(backendsFile, &backends, "backend")
	l.cat.Backends = backends.Backends

	var workloads struct {
		Workloads []Workload `yaml:"workloads"`
		Routings  []Routing  `yaml:"routings"`
	}
	l.read(workloadsFile, &workloads, "workload", "routing")
	l.cat.Workloads, l.cat.Routings = workloads.Workloads, workloads.Routings

	var sampling struct {
		Profiles []Sampling `yaml:"profiles"`
	}
	l.read(samplingFile, &sampling, "sampling")
	l.cat.Sampling = sampling.Profiles

	l.platforms()
	l.suites()
	l.traffic()
	l.defaults()
	l.resolve(l.names(), l.broken)
	if len(*l.faults) == 0 {
		l.check()
	}
	if len(*l.faults) > 0 {
		l.faults.sort()
		return nil, *l.faults
	}
	return &l.cat, nil
}

// read decodes one file, which defines names of the given kinds.
func (l *loader) read(file string, out any, kinds ...string) {
	p, ok := l.parsed[file]
	if !ok {
		p = parseFile(l.fsys, file)
	}
	if !l.document(p, out) {
		for _, k := range kinds {
			l.broken[k] = true
		}
	}
}

func (l *loader) platforms() {
	files := l.list(platformsDir)
	l.cat.Platforms = make([]Platform, len(files))
	for i, f := range files {
		p := &l.cat.Platforms[i]
		p.SKU = l.fileName(f)
		l.read(f, p)
	}
}

func (l *loader) suites() {
	files := l.list(suitesDir)
	l.cat.Suites = make([]Suite, len(files))
	for i, f := range files {
		s := &l.cat.Suites[i]
		s.Name = l.fileName(f)
		l.read(f, s)
	}
}

// defaults fills in what may be left out.
func (l *loader) defaults() {
	for i := range l.cat.Platforms {
		p := &l.cat.Platforms[i]
		p.Runner = cmp.Or(p.Runner, p.SKU)
	}
	for i := range l.cat.Backends {
		if b := l.cat.Backends[i].EP; b != nil && len(b.Contracts) == 0 {
			b.Contracts = l.defaultContracts(l.pos[b])
		}
	}
	for i := range l.cat.Suites {
		s := &l.cat.Suites[i]
		s.Repeats = max(1, s.Repeats)
		for j := range s.EP {
			b := &s.EP[j]
			if len(b.Contracts) == 0 {
				b.Contracts = l.defaultContracts(l.pos[b])
			}
			b.Sampling = cmp.Or(b.Sampling, s.Sampling)
		}
		for j := range s.Collective {
			b := &s.Collective[j]
			b.Sampling = cmp.Or(b.Sampling, s.Sampling)
		}
	}
}

// defaultContracts returns the timing contracts of a block at p that names none.
func (l *loader) defaultContracts(p Pos) []string {
	contracts := []string{vocab.ContractLayout}
	l.pos[&contracts[0]] = p
	return contracts
}

// fileName is the name that a file's own name gives to what it defines.
func (l *loader) fileName(file string) string {
	name := strings.TrimSuffix(path.Base(file), ".yaml")
	l.name(Pos{file, 1, 1}, name)
	return name
}

// list returns the definition files of a directory by name.
func (l *loader) list(dir string) []string {
	files, err := fs.Glob(l.fsys, dir+"/*.yaml")
	if err == nil && len(files) == 0 {
		err = errors.New("no definition in this directory")
	}
	if err != nil {
		l.fault(Pos{dir, 1, 1}, "%s", reason(err))
	}
	slices.Sort(files)
	return files
}

// layout returns the definition files, and reports those that nothing would read.
func (l *loader) layout() (files []string) {
	known := []string{backendsFile, workloadsFile, samplingFile}
	err := fs.WalkDir(l.fsys, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		switch ext := path.Ext(p); {
		case ext == ".yml":
			l.fault(Pos{p, 1, 1}, "definition files end in .yaml")
		case ext != ".yaml":
		case slices.Contains(known, p), path.Dir(p) == platformsDir, path.Dir(p) == suitesDir:
			files = append(files, p)
		default:
			l.fault(Pos{p, 1, 1}, "no definition file has this name%s", Hint(p, known))
		}
		return nil
	})
	if err != nil {
		l.fault(Pos{".", 1, 1}, "%s", reason(err))
	}
	return files
}

// names lists what there is of every kind of name.
func (l *loader) names() map[string][]string {
	names := vocabularies()
	names["platform"] = Names(l.cat.Platforms, func(p *Platform) string { return p.SKU })
	names["backend"] = Names(l.cat.Backends, func(b *Backend) string { return b.Name })
	names["workload"] = Names(l.cat.Workloads, func(w *Workload) string { return w.Name })
	names["routing"] = Names(l.cat.Routings, func(r *Routing) string { return r.Name })
	names["sampling"] = Names(l.cat.Sampling, func(s *Sampling) string { return s.Name })
	return names
}

// resolve looks up every name that was used. Names of a broken kind are left
// alone.
func (d *decoder) resolve(names map[string][]string, broken map[string]bool) {
	for _, r := range d.refs {
		if !slices.Contains(names[r.kind], r.name) && !broken[r.kind] {
			d.fault(r.Pos, "unknown %s %q%s", r.kind, r.name, Hint(r.name, names[r.kind]))
		}
	}
}
