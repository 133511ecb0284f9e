package workflow_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/workflow"
)

// node is a scalar of a workflow with the keys that lead to it.
type node struct {
	path  []string
	value string
}

// scalars returns every scalar value below n.
func scalars(n *yaml.Node, path ...string) []node {
	var out []node
	switch n.Kind {
	case yaml.ScalarNode:
		out = append(out, node{append([]string(nil), path...), n.Value})
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			out = append(out, scalars(n.Content[i+1], append(path, n.Content[i].Value)...)...)
		}
	case yaml.AliasNode:
		out = scalars(n.Alias, path...)
	default:
		for _, c := range n.Content {
			out = append(out, scalars(c, append(path, "-")...)...)
		}
	}
	return out
}

var (
	// Every variable that a job sets from an expression begins with CX_, but the token's.
	expansion = regexp.MustCompile(`\$\{?(CX_[A-Z_]+)`)
	executes  = regexp.MustCompile(`(?m)(^|[\s;&|(])(eval|source|xargs|bash -c|sh -c)\s`)
)

// exposures returns the ways in which text that somebody else chose could reach
// a shell as code. There must be none:
//
//   - no script, shell or working directory has an expression in it;
//   - scripts use variables that carry such text inside double quotes alone,
//     and neither evaluate nor source anything;
//   - expressions stand where GitHub takes values, not code.
func exposures(t *testing.T, text []byte) []string {
	t.Helper()
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal(text, &root))
	found := []string{}
	add := func(n node, what string) {
		found = append(found, strings.Join(n.path, ".")+": "+what)
	}
	for _, n := range scalars(root.Content[0]) {
		key := n.path[len(n.path)-1]
		if key == "-" && len(n.path) > 1 {
			key = n.path[len(n.path)-2]
		}
		code := key == "run" || key == "shell" || key == "working-directory" || key == "uses" || key == "script"
		switch {
		case code && strings.Contains(n.value, "${{"):
			add(n, "an expression in code")
		case strings.Contains(n.value, "${{") && !valued(n.path):
			add(n, "an expression where no value is expected")
		case parent(n.path) == "env" && !strings.HasPrefix(key, "CX_") && n.value != "${{ github.token }}":
			add(n, "a variable whose name does not begin with CX_")
		case key == "run": // of a step; defaults.run is a mapping
			if executes.MatchString(n.value) {
				add(n, "runs text as code")
			}
			for i, line := range strings.Split(n.value, "\n") {
				if v := unquoted(line); v != "" {
					add(n, fmt.Sprintf("line %d uses %s outside double quotes", i+1, v))
				}
			}
		}
	}
	return found
}

// valued reports whether expressions are values at this place.
func valued(path []string) bool {
	for _, key := range path[min(2, len(path)):] { // below jobs.JOB
		switch key {
		case "env", "with", "outputs", "if", "name", "runs-on", "timeout-minutes", "strategy":
			return true
		}
	}
	return path[0] == "concurrency" || path[0] == "run-name"
}

func parent(path []string) string {
	if len(path) < 2 {
		return ""
	}
	return path[len(path)-2]
}

// unquoted returns a CX_ variable that the line uses outside double quotes.
func unquoted(line string) string {
	for _, at := range expansion.FindAllStringSubmatchIndex(line, -1) {
		if strings.Count(line[:at[0]], `"`)%2 == 0 {
			return line[at[2]:at[3]]
		}
	}
	return ""
}

// TestNoInjection proves that what an operator types, an event says or a matrix
// holds reaches no shell line.
func TestNoInjection(t *testing.T) {
	for name, text := range forms(t) {
		t.Run(name, func(t *testing.T) { require.Empty(t, exposures(t, text)) })
	}
}

// TestExposures shows that each way is seen.
func TestExposures(t *testing.T) {
	text := string(emit(t, workflow.Options{}))
	replace := func(old, new string) string {
		require.Contains(t, text, old)
		return strings.Replace(text, old, new, 1)
	}
	for want, broken := range map[string]string{
		"jobs.setup.steps.-.run: an expression in code":                         replace("bin/cxgen matrix --github-output", "bin/cxgen matrix ${{ inputs.suite }} --github-output"),
		"jobs.sweep_0.steps.-.run: an expression in code":                       replace(`--id "$CX_CELL"`, `--id "${{ matrix.id }}"`),
		"jobs.aggregate.steps.-.run: an expression in code":                     replace("mkdir -p shards", "mkdir -p shards\n          echo ${{github.event.inputs.suite}}"),
		"jobs.setup.steps.-.uses: an expression in code":                        replace("uses: actions/setup-go@", "uses: ${{ inputs.suite }}/setup-go@"),
		"defaults.run.shell: an expression in code":                             replace("shell: bash", "shell: ${{ inputs.suite }}"),
		"jobs.setup.steps.-.run: line 2 uses CX_INPUT_SUITE":                    replace(`--suite="$CX_INPUT_SUITE"`, `--suite=$CX_INPUT_SUITE`),
		"jobs.setup.steps.-.run: runs text as code":                             replace("bin/cxgen matrix --github-output", `eval "bin/cxgen matrix"`),
		"on.workflow_dispatch.inputs.suite.default: an expression where no val": replace("default: smoke", "default: ${{ github.ref }}"),
		"jobs.setup.permissions.contents: an expression where no value is":      replace("contents: read", "contents: ${{ inputs.suite }}"),
		"jobs.aggregate.env.NDJSON: a variable whose name":                      replace("CX_NDJSON: coll", "NDJSON: coll"),
	} {
		require.Contains(t, strings.Join(exposures(t, []byte(broken)), "\n"), want)
	}
}
