package catalog

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/strictyaml"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// All is the filter value for no filter, and therefore not a valid name.
const All = "all"

// Files and directories of the definitions.
const (
	backendsFile  = "backends.yaml"
	workloadsFile = "workloads.yaml"
	samplingFile  = "sampling.yaml"
	platformsDir  = "platforms"
	suitesDir     = "suites"

	capabilitiesDir = "capabilities" // may be missing
	modelsDir       = "models"       // files named by suites; may be missing
)

// loader is the state of one Load.
type loader struct {
	*decoder
	files []string // by name
	cat   Catalog
	// broken lists the kinds of names whose file could not be read, so that uses of such names are not
	// reported too.
	broken map[string]bool
}

// Load reads the definitions in fsys. A non-nil error is of type strictyaml.Errors and lists all
// problems.
func Load(fsys fs.FS) (*Catalog, error) {
	l := &loader{decoder: newDecoder(), broken: map[string]bool{}}
	l.FS = fsys
	l.files = l.layout()

	l.read(backendsFile, &struct {
		Backends *[]Backend `yaml:"backends"`
	}{&l.cat.Backends}, "backend")
	l.readLists()
	l.read(samplingFile, &struct {
		Profiles *[]Sampling `yaml:"profiles"`
	}{&l.cat.Sampling}, "sampling")
	l.cat.Platforms = readAll(l, platformsDir, func(p *Platform) *string { return &p.SKU })
	for i := range l.cat.Platforms {
		p := &l.cat.Platforms[i]
		p.Runner = cmp.Or(p.Runner, p.SKU)
	}
	if len(l.in(capabilitiesDir)) > 0 {
		l.cat.Capabilities = readAll(l, capabilitiesDir, func(s *Capabilities) *string { return &s.Name })
	}
	l.cat.Suites = readAll(l, suitesDir, func(s *Suite) *string { return &s.Name })
	l.resolve(l.cat.words(), l.broken)
	l.cat.asked = l.words(suitesDir)
	if l.Err() == nil {
		c := Checker{&l.cat, l.decoder, l.cat.views()}
		c.check()
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	return &l.cat, nil
}

// read decodes one file, which introduces names of the given kinds.
func (l *loader) read(file string, out any, kinds ...string) {
	if !l.ReadFile(file, out) {
		for _, k := range kinds {
			l.broken[k] = true
		}
	}
}

// readLists decodes the lists of the families.
func (l *loader) readLists() {
	var kinds []string
	var fields []reflect.StructField
	for _, f := range families.All() {
		for _, list := range f.Lists {
			kinds = append(kinds, list.Kind)
			fields = append(fields, reflect.StructField{
				Name: "F" + strconv.Itoa(len(fields)), Type: reflect.TypeOf(list.Of), Tag: reflect.StructTag(fmt.Sprintf("yaml:%q", list.Key)),
			})
		}
	}
	file := reflect.New(reflect.StructOf(fields))
	l.read(workloadsFile, file.Interface(), kinds...)
	l.cat.Lists = map[string][]any{}
	for i, kind := range kinds {
		list := file.Elem().Field(i)
		for j := range list.Len() {
			l.cat.Lists[kind] = append(l.cat.Lists[kind], list.Index(j).Addr().Interface())
		}
	}
}

// readAll decodes the files of a directory; each defines one thing, named after the file.
func readAll[T any](l *loader, dir string, name func(*T) *string) []T {
	files := l.in(dir)
	if len(files) == 0 {
		l.Diagnose(strictyaml.StartOf(dir), "no definition in this directory")
	}
	out := make([]T, len(files))
	for i, f := range files {
		*name(&out[i]) = l.fileName(f)
		l.read(f, &out[i])
	}
	return out
}

// in lists the definition files of a directory, by the names that they define.
func (l *loader) in(dir string) []string {
	files := slices.DeleteFunc(slices.Clone(l.files), func(f string) bool { return path.Dir(f) != dir })
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(defines(a), defines(b)) })
	return files
}

// defines returns the name that a file defines.
func defines(file string) string { return strings.TrimSuffix(path.Base(file), ".yaml") }

// fileName checks and returns the name that a file defines.
func (l *loader) fileName(file string) string {
	name := defines(file)
	l.name(strictyaml.StartOf(file), name)
	return name
}

// layout returns the definition files by name, and reports files that nothing reads.
func (l *loader) layout() (files []string) {
	known := []string{backendsFile, workloadsFile, samplingFile}
	err := fs.WalkDir(l.FS, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		switch ext := path.Ext(p); {
		case ext == ".yml":
			l.Diagnose(strictyaml.StartOf(p), "definition files end in .yaml")
		case ext != ".yaml", path.Dir(p) == modelsDir:
		case slices.Contains(known, p), slices.Contains([]string{platformsDir, suitesDir, capabilitiesDir}, path.Dir(p)):
			files = append(files, p)
		default:
			l.Diagnose(strictyaml.StartOf(p), "no definition file has this name%s", vocab.Hint(p, known))
		}
		return nil
	})
	if err != nil {
		l.Diagnose(strictyaml.StartOf("."), "%s", strictyaml.Reason(err))
	}
	return files
}
