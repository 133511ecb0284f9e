package launch

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/container"
	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/sysfs"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Unready is the error of machines that cannot run ranks.
type Unready = container.Error

// unready returns the error of one of several nodes.
func unready(node int, reason, format string, args ...any) error {
	return &Unready{Reason: reason, Err: fmt.Errorf("node %d: "+format, append([]any{node}, args...)...)}
}

// The steps of a preparation. Each runs once on every node.
const (
	onHost      = "host"      // reads and writes the directory of the allocation, imports the image
	inContainer = "container" // reads and writes that directory from inside the image
)

// Limits of the two steps. An import may have to wait for another one.
const (
	answerLimit = 10 * time.Minute
	importLimit = 2 * time.Hour
)

// preparation is what `cxrun prepare` does on each node. It is in a file in the directory of the
// allocation, since arguments of programs are visible to other accounts of a node.
type preparation struct {
	Nonce   string           `json:"nonce"`
	Image   container.Image  `json:"image"`   // to import, if it has a name
	Storage operator.Storage `json:"storage"` // where
	Network operator.Network `json:"network"` // to check
}

const preparationFile = "prepare.json"

// report is what a node did, in a file beside the preparation.
type report struct {
	Nonce  string           `json:"nonce"` // of the preparation that the node read
	Squash container.Squash `json:"squash"`
	// LinkLayer is the link layer of the RDMA devices that the operator chose, if any.
	LinkLayer string `json:"link_layer,omitempty"`
	// Env is the variables that change what communication libraries do.
	Env    map[string]string `json:"env,omitempty"`
	Reason string            `json:"reason,omitempty"` // of a failure; may be published
	Error  string            `json:"error,omitempty"`
}

func reportFile(dir, step string, node int) string {
	return filepath.Join(dir, fmt.Sprintf("prepare-%s-%d.json", step, node))
}

// messageBytes is more than a preparation or a report needs.
const messageBytes = 1 << 16

// Prepare does a step of the preparation in dir on this node and reports it there. It fails only
// if it cannot read the preparation or write the report.
func Prepare(ctx context.Context, s command.Starter, dir, step string, node int) error {
	var p preparation
	if err := safefile.ReadJSON(filepath.Join(dir, preparationFile), messageBytes, &p); err != nil {
		return fmt.Errorf("read the preparation of the shard: %w", err)
	}
	r := report{Nonce: p.Nonce, Env: inherited()}
	if step == onHost {
		r.prepareHost(ctx, s, p, node)
	}
	return safefile.WriteJSON(reportFile(dir, step, node), r)
}

func (r *report) prepareHost(ctx context.Context, s command.Starter, p preparation, node int) {
	var wrong *unusable
	if r.LinkLayer, wrong = network(p.Network).check(sysfs.Here()); wrong != nil {
		r.Error, r.Reason = wrong.what+": "+wrong.fix, wrong.reason(node)
		return
	}
	if p.Image.Ref == "" {
		return
	}
	var err error
	if r.Squash, err = (container.Squashes{Starter: s, Storage: p.Storage}).Import(ctx, p.Image); err != nil {
		r.Error, r.Reason = err.Error(), "image could not be prepared"
	}
	if failed, ok := errors.AsType[*Unready](err); ok {
		r.Reason = failed.Reason
	}
}

// inherited returns the variables of this process that ranks get, wherever they run: those
// that change what communication libraries do, and injected faults.
func inherited() map[string]string {
	env := map[string]string{}
	for _, kv := range provenance.Relevant(os.Environ()) {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	if faults, set := os.LookupEnv(rank.FaultVariable); set {
		env[rank.FaultVariable] = faults
	}
	return env
}

// prepare checks that all nodes of the allocation see its directory and can write to it,
// and makes the image ready on each.
func (a *slurmAllocation) prepare(ctx context.Context) error {
	p, limit := preparation{Nonce: rand.Text(), Storage: a.Operator.Storage, Network: a.Network()}, answerLimit
	boxed := a.Cell.Container == vocab.Pyxis
	if boxed {
		p.Image, limit = container.Image{Ref: a.Cell.Image, Arch: a.Cell.Arch}, importLimit
	}
	if err := safefile.WriteJSON(filepath.Join(a.Dir(), preparationFile), p); err != nil {
		return fmt.Errorf("prepare nodes: %w", err)
	}
	reports, err := a.prepareStep(ctx, onHost, p.Nonce, limit)
	if err == nil {
		err = sameLayer(reports)
	}
	if err != nil || !boxed {
		return err
	}
	if err := sameImage(p.Image.Ref, reports); err != nil {
		return err
	}
	a.squash, a.image.Digest = reports[0].Squash.File, reports[0].Squash.Digest
	if reports, err = a.prepareStep(ctx, inContainer, p.Nonce, answerLimit); err == nil {
		a.image.Env = reports[0].Env
	}
	return err
}

// sameImage returns an error unless all nodes have the same image.
func sameImage(ref string, reports []report) error {
	for n, r := range reports {
		if r.Squash != reports[0].Squash {
			return unready(n, "nodes have different images", "image %s is %s here and %s on node 0: remove the older file from storage.images of its node",
				ref, r.Squash.Digest, reports[0].Squash.Digest)
		}
	}
	return nil
}

func (a *slurmAllocation) prepareStep(ctx context.Context, step, nonce string, limit time.Duration) ([]report, error) {
	args := append(a.step(a.Cell.Nodes, a.Cell.Nodes, 1), "--kill-on-bad-exit=0") // every node reports
	if step == inContainer {
		args = append(append(args, a.containerArgs(nil)...), a.Cell.Launch.Srun...)
	}
	args = append(args, filepath.Join(a.Dir(), stagedProgram), "prepare", "--dir", a.Dir(), "--step", step)
	srun := command.Command{Args: args, Grace: killGrace} // srun ends the step on SIGTERM; on SIGKILL it would leave it
	said, failed := runStep(ctx, a.Starter, srun, limit)
	said = a.Operator.Slurm.Hide(strings.ReplaceAll(said, a.Dir(), "<storage.stage>"))
	reports := make([]report, a.Cell.Nodes)
	for n := range reports {
		var err error
		if reports[n], err = readReport(ctx, a.Dir(), step, n, a.Delay, nonce, said, failed); err != nil {
			return nil, err
		}
	}
	return reports, nil
}

// runStep runs a program within limit, and returns its whole output. If ctx ends first, it returns the error of ctx.
func runStep(ctx context.Context, s command.Starter, c command.Command, limit time.Duration) (string, error) {
	limited, stop := context.WithTimeout(ctx, limit)
	defer stop()
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	err := command.Run(limited, s, c)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = ctx.Err()
	case limited.Err() != nil:
		err = fmt.Errorf("no answer within %s", limit)
	default:
		err = fmt.Errorf("%s: %w", c.Args[0], err)
	}
	return said.String(), err
}

const pollReport = 20 * time.Millisecond

// tooOld matches the dynamic loader's message that glibc is older than a program needs.
var tooOld = regexp.MustCompile("version `GLIBC_([0-9.]+)' not found")

// readReport reads the report of a node on a step, which wrote said and ended with failed.
// The report may take delay to become visible here.
func readReport(ctx context.Context, dir, step string, node int, delay time.Duration, nonce, said string, failed error) (report, error) {
	var r report
	where, what := "node", "does it see storage.stage, at the same path as the runner, and may it write there?"
	if step == inContainer {
		where, what = "image", "does the image start there, and with the directory of the cell mounted?"
	}
	err := safefile.ReadJSON(reportFile(dir, step, node), messageBytes, &r)
	for end := time.Now().Add(delay); err != nil && failed == nil && ctx.Err() == nil && time.Now().Before(end); time.Sleep(pollReport) {
		err = safefile.ReadJSON(reportFile(dir, step, node), messageBytes, &r)
	}
	switch {
	case ctx.Err() != nil:
		return r, fmt.Errorf("prepare nodes: %w", ctx.Err())
	case err != nil && tooOld.MatchString(said):
		needed := tooOld.FindStringSubmatch(said)[1]
		return r, unready(node, where+" has a glibc older than "+needed, "the %s has a glibc older than %s, which this program needs: use a newer one, or build cxrun on a machine with that glibc", where, needed)
	case err != nil && failed != nil && noTask(said):
		return r, &Unready{Reason: "srun started no step", Err: fmt.Errorf("%w (%s)", failed, lastWords(said))}
	case err != nil && failed != nil:
		return r, unready(node, fmt.Sprintf("no answer from %s of node %d", where, node), "%w (%s): %s", failed, lastWords(said), what)
	case err != nil || r.Nonce != nonce:
		return r, unready(node, fmt.Sprintf("nothing came back from %s of node %d", where, node), "its report is not visible here: %s", what)
	case r.Error != "":
		return r, unready(node, r.Reason, "%s", r.Error)
	}
	return r, nil
}

// noTask reports whether srun started no task of a step, given the output of the step: there is only srun's reason.
func noTask(said string) (none bool) {
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if none = strings.HasPrefix(line, "srun: ") && !endOf.MatchString(line); !none {
			return false
		}
	}
	return none
}

// lastWords returns the last line of a step's output that is not srun's own about its tasks.
func lastWords(said string) (line string) {
	for l := range strings.Lines(said) {
		if l = strings.TrimSpace(l); l != "" && (line == "" || !strings.HasPrefix(l, "srun: ")) {
			line = l
		}
	}
	return line
}
