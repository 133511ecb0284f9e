// Package container makes the image of a platform usable on a machine: as a squash file
// that pyxis starts, or in the storage of docker or podman. It pulls images by tag, checks
// what it got, and reports its digest.
package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/collectivex/collectivex/pkg/command"
)

// Image is a container image for one kind of machine.
type Image struct {
	Ref  string // [REGISTRY/]REPOSITORY[:TAG], as docker pull takes it
	Arch string // amd64 or arm64
}

// Error reports that a machine cannot run ranks, or cannot run them in an image.
type Error struct {
	Reason string // has no path, name or text of a tool, and may be published
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error that says what to do.
func (e *Error) Unwrap() error { return e.Err }

func because(reason, format string, args ...any) error {
	return &Error{reason, fmt.Errorf(format, args...)}
}

// reference matches an image by tag. enroot would take the digest in a name for the name of a user,
// and ask for a password.
var reference = regexp.MustCompile(`^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9._-]+(/[a-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$`)

// Check returns an error unless the image is named by tag.
func (i Image) Check() error {
	if !reference.MatchString(i.Ref) {
		return because("image name", "image %q: want [REGISTRY/]REPOSITORY[:TAG], without a digest", i.Ref)
	}
	return nil
}

// split returns the parts of the name. The registry is empty if the name has none.
func (i Image) split() (registry, repository, tag string) {
	repository, tag = i.Ref, "latest"
	if first, rest, found := strings.Cut(i.Ref, "/"); found && (strings.ContainsAny(first, ".:") || first == "localhost") {
		registry, repository = first, rest
	}
	if colon := strings.LastIndexByte(repository, ':'); colon > strings.LastIndexByte(repository, '/') {
		repository, tag = repository[:colon], repository[colon+1:]
	}
	return registry, repository, tag
}

// tool runs a program to its end, without standard input, and returns what it writes to
// standard output. Its error ends with the last line that the program wrote to standard
// error, since tools report progress first.
func tool(ctx context.Context, s command.Starter, c command.Command) ([]byte, error) {
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	err := command.Run(ctx, s, c)
	if _, failed := errors.AsType[command.Status](err); failed {
		text := bytes.TrimSpace(said.Bytes())
		err = fmt.Errorf("%w (%s)", err, text[bytes.LastIndexByte(text, '\n')+1:])
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Args[0], err)
	}
	return out.Bytes(), nil
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
