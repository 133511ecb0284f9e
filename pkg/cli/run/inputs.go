package run

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
)

// named is inputs with names for their runs: the NAME of NAME=PATH, by default the name of the directory or file.
type named struct {
	args  []string
	paths inputs
	names []string
	given []string // the NAME of each input, empty without one
}

func (n *named) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&n.args, "in", nil, "read documents below `[NAME=]DIR`, or the lines of a FILE.ndjson; NAME names the run (default: the name of DIR); may be repeated")
	_ = cmd.MarkFlagRequired("in") // fails only for unknown flags
}

// parse sets paths and names, and refuses inputs that do not exist or cannot be read, and one input under two names.
func (n *named) parse() error {
	n.split()
	for i, path := range n.paths {
		for k, other := range n.paths[:i] {
			if n.names[i] != n.names[k] && sameFile(path, other) {
				return cli.UsageError("--in %s: %s has the name %s already; give each directory or file once", n.args[i], path, n.names[k])
			}
		}
	}
	return n.paths.check()
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(one, other)
}

// split sets paths and names.
func (n *named) split() {
	for _, arg := range n.args {
		name, path := nameOf(arg)
		n.paths, n.names = append(n.paths, path), append(n.names, name)
	}
	n.given = slices.Clone(n.names)
	n.name()
}

// plans parses the inputs and reads the matrices at the given paths. Without any, it reads those that sweeps left
// beside their documents.
func (n *named) plans(s cli.Streams, paths []string) (out []*plan.Matrix, err error) {
	if err := n.parse(); err != nil {
		return nil, err
	}
	for _, path := range paths {
		m, err := n.paths.answering(path)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	if len(paths) > 0 {
		return out, nil
	}
	for _, path := range n.paths {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			path = filepath.Dir(path)
		}
		path = filepath.Join(path, matrixFile)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		m, err := plan.ReadArchived(path, cli.Version)
		if err != nil {
			s.Tell("the matrix beside the documents was left out, so cases without a document are unknown: %v", err)
			continue
		}
		if !slices.ContainsFunc(out, func(o *plan.Matrix) bool { return o.SHA256 == m.SHA256 }) {
			out = append(out, m)
		}
	}
	return out, nil
}

// nameOf splits NAME=PATH. An argument that is itself an existing path has no name.
func nameOf(arg string) (name, path string) {
	name, path, ok := strings.Cut(arg, "=")
	if _, err := os.Lstat(arg); !ok || err == nil || name == "" || path == "" || strings.ContainsRune(name, filepath.Separator) {
		return "", arg
	}
	return name, path
}

// name names each path without a given name after its last element, and after as many more as tell different paths apart.
func (n *named) name() {
	depth := make([]int, len(n.paths))
	for clash := true; clash; {
		paths := map[string]map[string]bool{} // by name
		for i, path := range n.paths {
			all := elements(path)
			n.names[i] = cmp.Or(n.given[i], strings.Join(all[max(0, len(all)-1-depth[i]):], "/"))
			if paths[n.names[i]] == nil {
				paths[n.names[i]] = map[string]bool{}
			}
			paths[n.names[i]][strings.Join(all, "/")] = true
		}
		clash = false
		for i, path := range n.paths {
			if n.given[i] == "" && len(paths[n.names[i]]) > 1 && depth[i]+1 < len(elements(path)) {
				depth[i]++
				clash = true
			}
		}
	}
}

// elements returns the elements of a path that may name its run: without the extension of a file of documents,
// and without the file name that a sweep uses. A path of only that file name has none.
func elements(path string) []string {
	if filepath.Base(path) == foldFile {
		if path = filepath.Dir(path); path == "." {
			return nil
		}
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	path = strings.TrimSuffix(filepath.ToSlash(path), ".ndjson")
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}
