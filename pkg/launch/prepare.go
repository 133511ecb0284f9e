package launch

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/container"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// Unready is the error of machines that cannot run ranks.
type Unready struct {
	Reason string // may be published
	Err    error
}

func (u *Unready) Error() string { return u.Err.Error() }

// Unwrap returns the error that says what to do.
func (u *Unready) Unwrap() error { return u.Err }

// unready is the error of one of several nodes.
func unready(node int, reason, format string, args ...any) error {
	return &Unready{reason, fmt.Errorf("node %d: "+format, append([]any{node}, args...)...)}
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

// order is what `cxrun prepare` does on each node, in a file in the directory of the
// allocation: arguments of programs are visible to other accounts of a node.
type order struct {
	Nonce  string          `json:"nonce"`
	Image  container.Image `json:"image"`  // to import, if it has a name
	Images ImageOperator   `json:"images"` // where
	// Network is what to check.
	Network Network `json:"network"`
}

// orderFile is the name of the order.
const orderFile = "prepare.json"

// report is what a node did, in a file beside the order.
type report struct {
	Nonce  string           `json:"nonce"` // of the order that the node read
	Squash container.Squash `json:"squash"`
	// LinkLayer is that of the RDMA devices that the operator chose, if any.
	LinkLayer string `json:"link_layer,omitempty"`
	// Env is the variables that change what communication libraries do.
	Env    map[string]string `json:"env,omitempty"`
	Reason string            `json:"reason,omitempty"` // of a failure; may be published
	Error  string            `json:"error,omitempty"`
}

// reportFile is the file with the report of a node on a step.
func reportFile(dir, step string, node int) string {
	return filepath.Join(dir, fmt.Sprintf("prepare-%s-%d.json", step, node))
}

// messageBytes is more than an order or a report needs.
const messageBytes = 1 << 16

// writeMessage writes an order or a report.
func writeMessage(path string, message any) error {
	return safefile.WriteAtomic(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(message) })
}

// readMessage reads an order or a report.
func readMessage(path string, into any) error {
	raw, err := safefile.Read(path, messageBytes)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// Prepare does a step of the order in dir on this node and reports it there. Its error is
// that of a report that cannot be written.
func Prepare(ctx context.Context, s command.Starter, dir, step string, node int) error {
	var o order
	if err := readMessage(filepath.Join(dir, orderFile), &o); err != nil {
		return fmt.Errorf("read the order of the shard: %w", err)
	}
	r := report{Nonce: o.Nonce, Env: inherited()}
	if step == onHost {
		var wrong *unusable
		if r.LinkLayer, wrong = o.Network.check(sysfs.Here()); wrong != nil {
			r.Reason = wrong.reason(node)
			r.Error = wrong.what + ": " + wrong.mend
		}
	}
	if step == onHost && o.Image.Ref != "" && r.Error == "" {
		var err error
		r.Squash, err = container.Squashes{Starter: s, Dir: o.Images.Dir, Locks: o.Images.Locks, Cache: o.Images.Cache}.Import(ctx, o.Image)
		if err != nil {
			r.Error, r.Reason = err.Error(), "image could not be prepared"
		}
		if failed := (&container.Error{}); errors.As(err, &failed) {
			r.Reason = failed.Reason
		}
	}
	return writeMessage(reportFile(dir, step, node), r)
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

// prepare proves that all nodes of the allocation see its directory and can write to it,
// and makes the image ready on each.
func (a *slurmAllocation) prepare(ctx context.Context) error {
	o := order{Nonce: rand.Text(), Images: a.Job.Images, Network: a.Job.Network}
	if a.Job.Image != "" {
		o.Image = container.Image{Ref: a.Job.Image, Arch: a.Job.Arch}
	}
	if err := writeMessage(filepath.Join(a.Dir(), orderFile), o); err != nil {
		return fmt.Errorf("prepare nodes: %w", err)
	}
	limit := answerLimit
	if o.Image.Ref != "" {
		limit = importLimit
	}
	reports, err := a.prepareStep(ctx, onHost, o.Nonce, limit)
	if err == nil {
		err = sameLayer(reports)
	}
	if err != nil || o.Image.Ref == "" {
		return err
	}
	if err := sameImage(o.Image.Ref, reports); err != nil {
		return err
	}
	a.Job.Image, a.image.Digest = reports[0].Squash.File, reports[0].Squash.Digest
	if reports, err = a.prepareStep(ctx, inContainer, o.Nonce, answerLimit); err == nil {
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

// prepareStep runs a step on all nodes and returns their reports.
func (a *slurmAllocation) prepareStep(ctx context.Context, step, nonce string, limit time.Duration) ([]report, error) {
	nodes := strconv.Itoa(a.Job.Nodes)
	args := []string{
		"srun", "--jobid=" + a.id, "--nodes=" + nodes, "--ntasks=" + nodes, "--ntasks-per-node=1", "--mpi=none", "--input=none",
		"--label", "--kill-on-bad-exit=0", // every node reports
	}
	if step == inContainer {
		args = append(append(args, a.containerArgs(nil)...), a.Job.Srun...)
	}
	args = append(args, filepath.Join(a.Dir(), stagedProgram), "prepare", "--dir", a.Dir(), "--step", step)
	said, failed := runStep(ctx, a.Starter, args, limit)
	said = a.Job.hide(strings.ReplaceAll(said, a.Dir(), "<storage.stage>"))
	reports := make([]report, a.Job.Nodes)
	for n := range reports {
		var err error
		if reports[n], err = readReport(ctx, a.Dir(), step, n, a.Delay, nonce, said, failed); err != nil {
			return nil, err
		}
	}
	return reports, nil
}

// runStep runs a program within limit, and returns all that it wrote.
func runStep(ctx context.Context, s command.Starter, args []string, limit time.Duration) (string, error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	var said bytes.Buffer
	p, err := s.Start(command.Command{Args: args, Stdout: &said, Stderr: &said})
	if err != nil {
		return "", fmt.Errorf("prepare nodes: %w", err)
	}
	defer context.AfterFunc(ctx, p.Kill)()
	switch status := p.Wait(); {
	case status.OK():
		return said.String(), nil
	case ctx.Err() != nil:
		return said.String(), fmt.Errorf("no answer within %s", limit)
	default:
		return said.String(), fmt.Errorf("%s: %s", args[0], status)
	}
}

// pollReport is how often a report is looked for that should be here.
const pollReport = 20 * time.Millisecond

// tooOld is how the dynamic loader says that glibc is older than a program needs.
var tooOld = regexp.MustCompile("version `GLIBC_([0-9.]+)' not found")

// readReport reads the report of a node on a step, which wrote said and ended with failed.
// The report may take delay to become visible here.
func readReport(ctx context.Context, dir, step string, node int, delay time.Duration, nonce, said string, failed error) (report, error) {
	var r report
	where, what := "node", "does it see storage.stage, at the same path as the runner, and may it write there?"
	if step == inContainer {
		where, what = "image", "does the image start there, and with the directory of the cell mounted?"
	}
	err := readMessage(reportFile(dir, step, node), &r)
	for end := time.Now().Add(delay); err != nil && failed == nil && ctx.Err() == nil && time.Now().Before(end); time.Sleep(pollReport) {
		err = readMessage(reportFile(dir, step, node), &r)
	}
	switch {
	case ctx.Err() != nil:
		return r, fmt.Errorf("prepare nodes: %w", ctx.Err())
	case err != nil && tooOld.MatchString(said):
		needed := tooOld.FindStringSubmatch(said)[1]
		return r, unready(node, where+" has a glibc older than "+needed, "the %s has a glibc older than %s, which this program needs: use a newer one, or build cxrun on a machine with that glibc", where, needed)
	case err != nil && failed != nil:
		return r, unready(node, fmt.Sprintf("no answer from %s of node %d", where, node), "%w (%s): %s", failed, lastWords(said), what)
	case err != nil || r.Nonce != nonce:
		return r, unready(node, fmt.Sprintf("nothing came back from %s of node %d", where, node), "what it wrote is not visible here: %s", what)
	case r.Error != "":
		return r, unready(node, r.Reason, "%s", r.Error)
	}
	return r, nil
}

// lastWords is the last line of what a step wrote that is not srun's own about its tasks.
func lastWords(said string) (line string) {
	for l := range strings.Lines(said) {
		if l = strings.TrimSpace(l); l != "" && (line == "" || !strings.HasPrefix(l, "srun: ")) {
			line = l
		}
	}
	return line
}
