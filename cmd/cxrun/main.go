// Command cxrun: see package cli/run.
package main

import (
	"context"
	"os"

	"github.com/collectivex/collectivex"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/run"
)

func main() {
	cli.Version = collectivex.SourceVersion()
	ctx, stop := cli.WithSignals(context.Background())
	code := run.Main(ctx, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}, os.Args[1:])
	stop()
	os.Exit(code)
}
