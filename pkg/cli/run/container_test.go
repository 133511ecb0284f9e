package run

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// inContainers makes a matrix whose ranks run in an image, with docker.
func inContainers(t *testing.T) string {
	t.Helper()
	path := planned(t)
	raw := readFile(t, path)
	var m plan.Matrix
	require.NoError(t, json.Unmarshal(raw, &m))
	for i := range m.Include {
		m.Include[i].Container, m.Include[i].Image = "docker", "vendor/libraries:v1"
	}
	raw, err := json.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	return path
}

// The documents of a cell whose ranks run in a container name the image by its content; if
// it is not to be had, they say why.
func TestCellInAContainer(t *testing.T) {
	need.Full(t)
	tools := fakes.NewContainers(t)
	t.Setenv("FAKE_IMAGE_ENV", "NCCL_PROTO=LL")
	matrix := inContainers(t)
	cell := func() (int, string, []result.Document) {
		results := filepath.Join(t.TempDir(), "results")
		code, _, stderr := cxrun(t, nil, "shard", "--matrix", matrix, "--id", "local-host-bf16-n1", "--results", results)
		files, err := filepath.Glob(filepath.Join(results, "*.json"))
		require.NoError(t, err)
		var docs []result.Document
		for _, f := range files {
			data := readFile(t, f)
			doc, err := result.Decode(data)
			require.NoError(t, err)
			docs = append(docs, doc)
		}
		require.NotEmpty(t, docs)
		return code, stderr, docs
	}
	code, stderr, docs := cell()
	require.Equal(t, cli.ExitEnvironment, code)
	wording.Has(t, stderr, "vendor/libraries:v1: docker: exit status 1 … not found")
	require.Equal(t, result.ReasonEnvironment, docs[0].Head().Outcome.Code())

	tools.Push(t, "vendor/libraries:v1", fakes.Digest(9), 3)
	code, stderr, docs = cell()
	require.Equal(t, cli.ExitOK, code, stderr)
	for _, d := range docs {
		require.Equal(t, fakes.Digest(9), d.Head().Provenance.ImageDigest)
		require.Equal(t, "LL", d.Head().Provenance.Environment["NCCL_PROTO"], "ranks have it from the image")
	}
	require.Len(t, tools.Called(t, "docker run"), len(tools.Called(t, "docker rm")))
}
