package workflow

import (
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/plan"
)

// Where the jobs run that touch no GPU.
const hosted = "ubuntu-24.04"

// GlibcFloor is the oldest GNU C library that the built cxrun runs on. Setup
// and the tests refuse a binary that needs a newer one.
const GlibcFloor = "2.34"

// Artifacts of a run. Readers parse the names of matrix and shards; those of a
// cell carry the attempt, since an artifact's name is taken once and for all.
const (
	matrixArtifact    = "cxsweep-matrix-${{ github.run_id }}"
	binariesArtifact  = "cxsweep-binaries-${{ github.run_id }}"
	aggregateArtifact = "cxsweep-aggregate-${{ github.run_id }}"
	shardArtifacts    = "cxshard-${{ matrix.id }}-${{ github.run_id }}-" // and the attempt
	samplesArtifacts  = "cxsamples-${{ matrix.id }}-${{ github.run_id }}-"
	attempt           = "${{ github.run_attempt }}"
)

// programs is where a job keeps what setup built. The runner empties it.
const programs = "${{ runner.temp }}/collectivex" // in scripts: $RUNNER_TEMP/collectivex

// always runs a step whatever happened before, also in a cancelled job.
const always = "${{ always() }}"

const (
	buildGen = `CGO_ENABLED=0 go build -trimpath -buildvcs=true -o bin/cxgen ./cmd/cxgen`

	// The programs travel in a tar, since artifacts lose the run bit.
	buildRun = `for arch in amd64 arm64; do
  case " $CX_ARCHS " in *" $arch "*) ;; *) continue ;; esac
  cc=gcc
  if [ "$arch" = arm64 ]; then cc=aarch64-linux-gnu-gcc; fi
  CGO_ENABLED=1 GOOS=linux GOARCH=$arch CC=$cc \
    go build -trimpath -buildvcs=true -o "bin/$arch/cxrun" ./cmd/cxrun
  need=$(readelf --version-info --wide "bin/$arch/cxrun" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
  if [ "$(printf '%s\n' "$need" GLIBC_` + GlibcFloor + ` | sort -V | tail -n 1)" != GLIBC_` + GlibcFloor + ` ]; then
    echo "::error::cxrun for $arch needs $need, newer than the promised GLIBC_` + GlibcFloor + `"
    exit 1
  fi
  tar -C "bin/$arch" -cf "bin/cxrun-$arch.tar" cxrun
done`

	installCross = `sudo apt-get update -qq
sudo apt-get install -qq -y --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross`

	// digest says what setup made. Artifacts can be replaced by any job of the run,
	// job outputs cannot: each job verifies what it downloaded against them.
	digest = `{
  echo 'sha256<<END'
  sha256sum matrix_full.json
  cd bin
  sha256sum cxrun-*.tar
  echo END
} >> "$GITHUB_OUTPUT"`

	verify = `cd "$RUNNER_TEMP/collectivex"
printf '%s\n' "$CX_DIGESTS" | sha256sum --check --strict
tar -xf "cxrun-$CX_ARCH.tar"`

	// stopCommands keeps the runner from taking what is printed below as a command,
	// whatever text of other jobs is in it.
	stopCommands = `stop=$(cat /proc/sys/kernel/random/uuid)
echo "::stop-commands::$stop"
trap 'echo "::$stop::"' EXIT
`

	// Workspaces of runners persist, and private logs with them; a cell has a
	// directory of its own, and the old ones go.
	runCell = `mkdir -p cells
find cells -mindepth 1 -maxdepth 1 -mtime +14 -exec rm -rf {} + || echo "::warning::old directories of cells stay on this runner"
mkdir -p "$CX_DIR"
"$RUNNER_TEMP/collectivex/cxrun" shard --matrix "$RUNNER_TEMP/collectivex/matrix_full.json" --id "$CX_CELL" --results "$CX_DIR" --resume`

	summarizeCell = stopCommands + `"$RUNNER_TEMP/collectivex/cxrun" summarize --in "$CX_DIR"`

	runAggregate = `mkdir -p shards
` + stopCommands + `"$RUNNER_TEMP/collectivex/cxrun" aggregate --in shards --matrix "$RUNNER_TEMP/collectivex/matrix_full.json" \
  --run-id "$GITHUB_RUN_ID" --source-sha "$GITHUB_SHA" -o "$CX_NDJSON"`

	summarizeRun = stopCommands + `"$RUNNER_TEMP/collectivex/cxrun" summarize --in "$CX_NDJSON" --matrix "$RUNNER_TEMP/collectivex/matrix_full.json"`
)

func setup(ins []input, o Options) *yaml.Node {
	outputs := mapping()
	outputs.Style = 0
	for _, name := range outputNames() {
		outputs.Content = append(outputs.Content, scalar(name), scalar(expression("steps.plan.outputs.%s", name)))
	}
	outputs.Content = append(outputs.Content, scalar("digests"), scalar(expression("steps.digest.outputs.sha256")))
	steps := append(sources(o),
		setupGo.step("Set up Go", "", "go-version-file", "go.mod"),
		step("Build cxgen", "", "run", script(buildGen)),
		resolve(ins, o),
		step("Install the arm64 compiler", expression("contains(steps.plan.outputs.archs, 'arm64')"), "run", script(installCross)),
		step("Build cxrun", "", "env", mapping("CX_ARCHS", "amd64 "+expression("steps.plan.outputs.archs")), "run", script(buildRun)),
		step("Digest the matrix and the programs", "", "id", "digest", "run", script(digest)),
		upload("Upload the matrix", "", matrixArtifact, "matrix_full.json", "error", "overwrite", true),
		upload("Upload the programs", "", binariesArtifact, "bin/cxrun-*.tar", "error", "overwrite", true),
	)
	return mapping(
		"runs-on", hosted,
		"timeout-minutes", 20,
		"permissions", mapping("contents", "read"),
		"outputs", outputs,
		"steps", list(steps),
	)
}

// own is where setup has the workflow's own repository, where that is not the
// source of CollectiveX and has definitions.
const own = "own"

// sources check out CollectiveX, and the repository that has the definitions.
func sources(o Options) []*yaml.Node {
	with := []any{"persist-credentials", false}
	if o.Source == (Source{}) {
		return []*yaml.Node{checkout.step("Check out CollectiveX", "", with...)}
	}
	steps := []*yaml.Node{checkout.step("Check out CollectiveX", "", append(with, "repository", o.Source.Repository, "ref", o.Source.SHA)...)}
	if o.Definitions != "" {
		steps = append(steps, checkout.step("Check out the definitions", "", append(with, "path", own)...))
	}
	return steps
}

// resolve is the step that makes the matrix.
func resolve(ins []input, o Options) *yaml.Node {
	var env []any
	command := []string{"bin/cxgen matrix --github-output -o matrix_full.json"}
	add := func(flag, variable, value string) {
		env = append(env, variable, value)
		command = append(command, fmt.Sprintf(`  --%s="$%s"`, flag, variable))
	}
	if o.Definitions != "" {
		dir := o.Definitions
		if o.Source != (Source{}) {
			dir = own + "/" + dir
		}
		add("definitions", "CX_DEFINITIONS", dir)
	}
	for _, in := range ins {
		add(in.filter, in.variable(), expression("inputs.%s", in.name()))
	}
	return step("Plan", "", "id", "plan", "env", mapping(env...), "run", script(strings.Join(command, " \\\n")))
}

// outputNames are the outputs that the other jobs read; see plan.Matrix.Outputs.
func outputNames() []string {
	var names []string
	for wave := range plan.Waves {
		names = append(names, "count_"+strconv.Itoa(wave), "matrix_"+strconv.Itoa(wave))
	}
	return names
}

// programsSteps fetch what setup made, and unpack it once it is verified.
func programsSteps(arch string) []*yaml.Node {
	return []*yaml.Node{
		download("Download the matrix", "", "name", matrixArtifact, "path", programs),
		download("Download the programs", "", "name", binariesArtifact, "path", programs),
		step("Verify the programs", "", "id", "programs",
			"env", mapping("CX_ARCH", arch, "CX_DIGESTS", expression("needs.setup.outputs.digests")), "run", script(verify)),
	}
}

// verified runs a step whatever happened before, where the programs are setup's.
const verified = "${{ always() && steps.programs.outcome == 'success' }}"

// sweep is the job of one wave's cells. In a fleet that names environments each
// cell runs in that of its platform; the name is empty where it has none.
func sweep(wave int, environments bool) *yaml.Node {
	out := "needs.setup.outputs."
	job := mapping(
		"name", "${{ matrix.id }}",
		"needs", "setup",
		"if", expression("%scount_%d != '0'", out, wave),
		"runs-on", "${{ matrix.runner }}",
		"timeout-minutes", "${{ matrix.minutes }}",
		"permissions", mapping(),
		"strategy", mapping(
			"fail-fast", false,
			"matrix", expression("fromJSON(%smatrix_%d)", out, wave),
		),
		"env", mapping(
			"CX_CELL", "${{ matrix.id }}",
			"CX_DIR", "cells/${{ github.run_id }}-${{ github.run_attempt }}-${{ matrix.id }}",
		),
		"steps", list(append(programsSteps("${{ matrix.arch }}"),
			download("Download what earlier attempts left", "${{ github.run_attempt != '1' }}",
				"pattern", shardArtifacts+"*", "path", "${{ env.CX_DIR }}", "merge-multiple", true),
			step("Run the cell", "", "run", script(runCell)),
			step("Summarize", verified, "run", script(summarizeCell)),
			upload("Upload the documents", always, shardArtifacts+attempt, "${{ env.CX_DIR }}/*.json", "error"),
			upload("Upload the samples", always, samplesArtifacts+attempt, "${{ env.CX_DIR }}/samples", "ignore"),
		)),
	)
	if environments {
		job.Content = append(job.Content, mapping("environment", "${{ matrix.environment }}").Content...)
	}
	return job
}

func aggregate(needs []string) *yaml.Node {
	return mapping(
		"needs", needs,
		"if", "${{ always() && needs.setup.result == 'success' }}",
		"runs-on", hosted,
		"timeout-minutes", 30,
		"permissions", mapping(),
		"env", mapping("CX_NDJSON", "collectivex-${{ github.run_id }}.ndjson"),
		"steps", list(append(programsSteps("amd64"),
			download("Download the documents of all cells", "", "pattern", "cxshard-*-${{ github.run_id }}-*", "path", "shards"),
			step("Aggregate", "", "run", script(runAggregate)),
			step("Summarize", verified, "run", script(summarizeRun)),
			upload("Upload the dataset", always, aggregateArtifact, "${{ env.CX_NDJSON }}", "error", "overwrite", true),
		)),
	)
}

// upload uploads the files at path; missing says what to do if there are none:
// error or ignore.
func upload(name, condition, artifact, path, missing string, with ...any) *yaml.Node {
	return uploadArtifact.step(name, condition, append([]any{"name", artifact, "path", path, "if-no-files-found", missing}, with...)...)
}

func download(name string, condition string, with ...any) *yaml.Node {
	return downloadArtifact.step(name, condition, with...)
}
