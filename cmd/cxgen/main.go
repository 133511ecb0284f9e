// Command cxgen: see package cli/gen.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/collectivex/collectivex"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/gen"
)

func main() {
	cli.Version = collectivex.SourceVersion()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := gen.Main(ctx, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}, os.Args[1:])
	stop()
	os.Exit(code)
}
