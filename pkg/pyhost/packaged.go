package pyhost

import (
	"context"
	"os"
	"path/filepath"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/dl"
)

// Packaged opens the library of a search. If no variable names it and no place has it, Packaged looks
// for paths, patterns below a directory of packages, among the packages of python3 on PATH. The error
// is that of the search if there is none either.
func Packaged(ctx context.Context, search dl.Search, paths ...string) (*dl.Library, error) {
	lib, elsewhere := search.Open()
	if elsewhere == nil || os.Getenv(search.Env) != "" {
		return lib, elsewhere
	}
	python, err := Find(ctx, command.Host{}, nil)
	if err != nil {
		return nil, elsewhere
	}
	search.Names = nil
	for _, path := range paths {
		for _, dir := range python.Path {
			found, _ := filepath.Glob(filepath.Join(dir, path))
			search.Names = append(search.Names, found...)
		}
	}
	if len(search.Names) == 0 {
		return nil, elsewhere
	}
	return search.Open()
}
