package container

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/command"
)

// Engine is docker, or podman, which has the same commands.
type Engine struct {
	Starter command.Starter
	Command []string // such as docker, or sudo docker
	// Locks is a directory for locks; empty for one of this account below the directory of
	// temporary files.
	Locks string
}

// Pulled is an image in the storage of an engine.
type Pulled struct {
	ID string // names exactly this content
	// Digest is the digest in the registry, sha256:…, of the index of the image if it has one.
	// It is empty for an image that was built on this host.
	Digest string
}

// Args returns the arguments of a command of the engine.
func (e Engine) Args(args ...string) []string {
	return append(append([]string{}, e.Command...), args...)
}

// Pull returns the image, and pulls it from its registry if it is not on this host.
func (e Engine) Pull(ctx context.Context, i Image) (Pulled, error) {
	if err := i.Check(); err != nil {
		return Pulled{}, err
	}
	if err := installed(e.Command[0], e.Command[0]); err != nil {
		return Pulled{}, err
	}
	if pulled, err := e.inspect(ctx, i); err == nil {
		return pulled, nil
	}
	lock, err := i.lock(ctx, e.Locks, i.Name(), lockWait)
	if err != nil {
		return Pulled{}, err
	}
	defer lock.Close()
	if pulled, err := e.inspect(ctx, i); err == nil {
		return pulled, nil // another process pulled it while this one waited
	}
	ctx, stop := context.WithTimeout(ctx, importLimit)
	defer stop()
	if _, err := tool(ctx, e.Starter, command.Command{Args: e.Args("pull", "--quiet", "--platform=linux/"+i.Arch, i.Ref)}); err != nil {
		return Pulled{}, because("image could not be imported", "pull image %s: %w: try it on this host", i.Ref, err)
	}
	pulled, err := e.inspect(ctx, i)
	if err != nil {
		return Pulled{}, because("image is not what its name says", "image %s: %w", i.Ref, err)
	}
	return pulled, nil
}

// inspect returns the image if it is on this host, for the right architecture.
func (e Engine) inspect(ctx context.Context, i Image) (Pulled, error) {
	out, err := tool(ctx, e.Starter, command.Command{Args: e.Args("image", "inspect", i.Ref)})
	if err != nil {
		return Pulled{}, err
	}
	var found []struct {
		ID               string `json:"Id"`
		RepoDigests      []string
		Os, Architecture string
	}
	if err := json.Unmarshal(out, &found); err != nil || len(found) != 1 || found[0].ID == "" {
		return Pulled{}, fmt.Errorf("%s image inspect does not describe one image", strings.Join(e.Command, " "))
	}
	if f := found[0]; f.Os != "linux" || f.Architecture != i.Arch {
		return Pulled{}, fmt.Errorf("it was built for %s/%s instead of linux/%s", f.Os, f.Architecture, i.Arch)
	}
	pulled := Pulled{ID: found[0].ID}
	_, repository, _ := i.split()
	for _, name := range found[0].RepoDigests {
		of, digest, _ := strings.Cut(name, "@")
		if _, r, _ := (Image{Ref: of}).split(); digestForm.MatchString(digest) &&
			strings.TrimPrefix(r, "library/") == strings.TrimPrefix(repository, "library/") {
			pulled.Digest = digest
		}
	}
	return pulled, nil
}
