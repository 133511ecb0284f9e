package gen

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/fleet"
	"github.com/collectivex/collectivex/pkg/safefile"
)

// remote is what the commands that talk to GitHub have in common, and their flags.
type remote struct {
	s     cli.Streams
	clock fleet.Clock

	repo, tokenFile string
	json            bool
}

func (r *remote) addFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&r.repo, "repo", "R", "", "work on `OWNER/NAME` instead of the repository in GH_REPO or GITHUB_REPOSITORY")
	fs.StringVar(&r.tokenFile, "token-file", "", "read the token from `FILE` instead of GH_TOKEN, GITHUB_TOKEN or gh")
	fs.BoolVar(&r.json, "json", false, "print one JSON object")
}

// client returns a client of the repository: the one of the run's URL, of the flag, or of
// the environment.
func (r *remote) client(ctx context.Context, of fleet.RunRef) (*fleet.Client, error) {
	if of.Repo != "" && r.repo != "" && !strings.EqualFold(of.Repo, r.repo) {
		return nil, cli.UsageError("--repo %s: the URL names a run of %s; leave out --repo, or give the URL of a run of %s", r.repo, of.Repo, r.repo)
	}
	o := fleet.Options{
		API: r.s.Getenv("GITHUB_API_URL"), Repo: cmp.Or(of.Repo, r.repo, r.s.Getenv("GH_REPO"), r.s.Getenv("GITHUB_REPOSITORY")),
		Clock: r.clock, Tell: func(line string) { r.s.Tell("%s", line) },
	}
	if o.Repo == "" {
		return nil, cli.UsageError("no repository: give --repo OWNER/NAME, or set GH_REPO or GITHUB_REPOSITORY")
	}
	if err := cmp.Or(fleet.CheckRepo(o.Repo), fleet.CheckHost(o.API, of.Host)); err != nil {
		return nil, cli.UsageError("%w", err)
	}
	var err error
	if o.Token, err = r.token(ctx, o.API); err == nil {
		err = o.Token.Check()
	}
	if err != nil {
		return nil, unreachable(err)
	}
	c, err := fleet.New(o)
	if err != nil {
		return nil, cli.UsageError("%w", err)
	}
	return c, nil
}

// token returns the token in the file of the flag, else the one that fleet finds.
func (r *remote) token(ctx context.Context, api string) (fleet.Token, error) {
	if r.tokenFile == "" {
		return fleet.FindToken(ctx, api, r.s.Getenv, command.Host{})
	}
	data, err := safefile.Read(r.tokenFile, 1<<16)
	if err != nil {
		return fleet.Token{}, fmt.Errorf("--token-file: %w", err)
	}
	t := fleet.NewToken(string(data))
	if t.Empty() {
		return t, fmt.Errorf("--token-file %s: the file is empty", r.tokenFile)
	}
	return t, nil
}

// run reads the argument that names a run: a number, a URL, or - for the first line of
// standard input.
func (r *remote) run(ctx context.Context, arg string) (*fleet.Client, int64, error) {
	if arg == "-" {
		line, err := bufio.NewReader(r.s.In).ReadString('\n')
		if line = strings.TrimSpace(line); line == "" {
			if err == nil || errors.Is(err, io.EOF) {
				err = errors.New("the previous command in the pipeline printed no run")
			}
			return nil, 0, cli.UsageError("standard input names no run: %w", err)
		}
		arg = line
	}
	of, err := fleet.ParseRun(arg)
	if err != nil {
		return nil, 0, cli.UsageError("%w", err)
	}
	c, err := r.client(ctx, of)
	return c, of.ID, err
}

func (r *remote) print(v any, text func()) error {
	if r.json {
		return r.s.JSON(v)
	}
	text()
	return nil
}

// unreachable returns err, an error of GitHub, the network or the disk, with exit code 3; nil for nil. After Ctrl-C it
// says so, with exit code 1.
func unreachable(err error) error {
	if err == nil {
		return nil
	}
	if started, ok := errors.AsType[*fleet.Interrupted](err); ok {
		return started
	}
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return cli.EnvironmentError("%w", err)
}

// oneRun returns an error unless a command has one argument, the run.
func oneRun(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes one run: its number, its URL, or - for the first line of standard input", c.Name())
	}
	return nil
}
