package fleet

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/collectivex/collectivex/pkg/command"
)

// Token is a GitHub token. It is printed as "[token]" by every verb of fmt and in
// JSON; only the transport reads it.
type Token struct{ value string }

// NewToken returns a token of this text, without the white space around it.
func NewToken(text string) Token { return Token{strings.TrimSpace(text)} }

// Check returns an error if the token has a character other than visible ASCII.
func (t Token) Check() error {
	if strings.ContainsFunc(t.value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the GitHub token has blanks, line ends or other invalid characters: check --token-file or GH_TOKEN")
	}
	return nil
}

// Empty reports whether there is no token.
func (t Token) Empty() bool { return t.value == "" }

// String implements fmt.Stringer.
func (Token) String() string { return "[token]" }

// GoString implements fmt.GoStringer.
func (Token) GoString() string { return "[token]" }

// MarshalText implements encoding.TextMarshaler.
func (Token) MarshalText() ([]byte, error) { return []byte("[token]"), nil }

// hide replaces the token in a text of the server, which may repeat what it was sent.
func (t Token) hide(text []byte) []byte {
	if t.Empty() || !strings.Contains(string(text), t.value) {
		return text
	}
	return []byte(strings.ReplaceAll(string(text), t.value, "[token]"))
}

// webHost returns the host of the web pages, which the gh program knows, for the root of an
// API: github.com for https://api.github.com.
func webHost(api *url.URL) string { return strings.TrimPrefix(api.Hostname(), "api.") }

// ownServer reports whether the API belongs to a GitHub Enterprise Server, to which
// tokens of github.com must not be sent.
func ownServer(api *url.URL) bool {
	host := api.Hostname()
	return host != "api.github.com" && !(strings.HasPrefix(host, "api.") && strings.HasSuffix(host, ".ghe.com"))
}

// FindToken returns the token for the API whose root is api: from the environment, else
// from the gh program. For github.com and ghe.com the variables are GH_TOKEN and
// GITHUB_TOKEN; for a GitHub Enterprise Server GH_ENTERPRISE_TOKEN and
// GITHUB_ENTERPRISE_TOKEN, and GITHUB_TOKEN only in a job of Actions, where it belongs to
// that server.
func FindToken(ctx context.Context, api string, getenv func(string) string, programs command.Starter) (Token, error) {
	u, err := parseAPI(api)
	if err != nil {
		return Token{}, err
	}
	names := []string{"GH_TOKEN", "GITHUB_TOKEN"}
	if ownServer(u) {
		names = []string{"GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"}
		if getenv("GITHUB_ACTIONS") == "true" {
			names = append(names, "GITHUB_TOKEN")
		}
	}
	for _, name := range names {
		if t := NewToken(getenv(name)); !t.Empty() {
			return t, nil
		}
	}
	out, err := command.Output(ctx, programs, command.Command{Args: []string{"gh", "auth", "token", "--hostname", webHost(u)}})
	if t := NewToken(string(out)); err == nil && !t.Empty() {
		return t, nil
	}
	if ctx.Err() != nil {
		return Token{}, context.Cause(ctx)
	}
	return Token{}, errors.New("no GitHub token for " + webHost(u) + ": set " + names[0] + ", name a file with --token-file, or log in with 'gh auth login'")
}
