package run

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/machine"
)

// probeLimit is how long a machine has to describe itself. Drivers that start
// cold take seconds.
const probeLimit = 2 * time.Minute

// machineHere is this machine. The program asks itself, in a process of its own:
// a driver or library that dies while it is opened costs the GPUs, not the sweep.
func machineHere(ctx context.Context, s cli.Streams, defs cli.Definitions) machine.Description {
	d, err := probe(ctx, defs)
	if err != nil {
		fmt.Fprintf(s.Err, "cxrun: this machine's GPUs are left out: %v; see 'cxrun doctor'\n", err)
		return machine.Description{Host: map[string]string{"arch": runtime.GOARCH}}
	}
	return d
}

func probe(ctx context.Context, defs cli.Definitions) (machine.Description, error) {
	var d machine.Description
	text, err := ask(ctx, defs, "env", "--json")
	if err != nil {
		return d, fmt.Errorf("cxrun env: %w", err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("cxrun env: %w", err)
	}
	return d, nil
}

// ask runs a command of this program in a process of its own and returns what
// it wrote to standard output, even where it failed.
func ask(ctx context.Context, defs cli.Definitions, args ...string) ([]byte, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if defs.Dir != "" {
		args = append(args, "--definitions", defs.Dir)
	}
	return exec.CommandContext(ctx, program, args...).Output()
}
