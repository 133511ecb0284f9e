package catalog

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
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
	parsed map[string]parsed // by file
	cat    Catalog
	// broken has the kinds of names whose file could not be read, so that each
	// use of such a name is not reported too.
	broken map[string]bool
}

// Load reads the definitions in fsys. A non-nil error is of type Errors and
// lists everything that is wrong.
func Load(fsys fs.FS) (*Catalog, error) {
	l := &loader{decoder: newDecoder(), broken: map[string]bool{}}
	l.fsys = fsys
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
	l.resolve(l.names(), l.broken)
	if len(l.faults) == 0 {
		c := Checker{&l.cat, &l.decoder}
		c.check()
	}
	if err := l.err(); err != nil {
		return nil, err
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
		p.Runner = cmp.Or(p.Runner, p.SKU)
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
