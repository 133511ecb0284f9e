package gen

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/result/schema"
)

func newSchema() *cobra.Command {
	var (
		dir   string
		check bool
	)
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Write the JSON Schemas of the matrix and of the documents",
		Example: `  cxgen schema
  cxgen schema --check`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			files, err := schema.Files()
			if err != nil {
				return err
			}
			known := map[string]bool{}
			var errs []error
			for _, f := range files {
				path := filepath.Join(dir, f.Name)
				known[path] = true
				if check {
					errs = append(errs, checkFile(path, f.Data, "go run ./cmd/cxgen schema"))
				} else {
					errs = append(errs, writeFile(path, f.Data))
				}
			}
			there, err := filepath.Glob(filepath.Join(dir, "*.schema.json"))
			if err != nil {
				return cli.UsageError("%w", err)
			}
			for _, path := range there {
				if check && !known[path] {
					errs = append(errs, fmt.Errorf("%s is not a generated schema; remove it", path))
				}
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringVarP(&dir, "output", "o", "schema", "write into `DIR`")
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; exit 1 if the files in DIR are not what would be written")
	return cmd
}
