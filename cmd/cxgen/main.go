// Command cxgen: see package cli/gen.
package main

import (
	"context"
	"os"

	"github.com/collectivex/collectivex"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/gen"
)

func main() {
	cli.Version = collectivex.SourceVersion()
	ctx, stop := cli.WithSignals(context.Background())
	code := gen.Main(ctx, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}, os.Args[1:])
	stop()
	os.Exit(code)
}
