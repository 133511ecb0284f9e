package preflight

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/command"
)

// toolTimeout limits the time for a command of a scheduler or container engine. Slurm's
// commands try to reach the controller for about ten seconds.
const toolTimeout = 30 * time.Second

// Tools examines the tools that can start ranks: Slurm and container engines.
func Tools(ctx context.Context, s command.Starter) []Finding {
	slurm := tool(ctx, s, "slurm", []string{"salloc", "srun", "scancel", "squeue"}, "srun", "--version")
	if slurm.State == Ready {
		if _, err := answer(ctx, s, "scontrol", "ping"); err != nil {
			slurm.State, slurm.Text = Missing, fmt.Sprintf("%s, but its controller does not answer: %v", slurm.Text, err)
		}
	}
	return []Finding{
		slurm, pyxis(ctx, s, slurm),
		tool(ctx, s, "enroot", []string{"enroot", "unsquashfs"}, "enroot", "version"),
		tool(ctx, s, "docker", []string{"docker"}, "docker", "version", "--format={{.Server.Version}}"),
		tool(ctx, s, "podman", []string{"podman"}, "podman", "version", "--format={{.Client.Version}}"),
	}
}

// tool reports whether programs are installed, and the version that the command version prints.
func tool(ctx context.Context, s command.Starter, name string, programs []string, version ...string) Finding {
	f := Finding{Tool: name, State: Missing}
	if lacks := slices.DeleteFunc(slices.Clone(programs), command.Installed); len(lacks) > 0 {
		f.Text = "not on PATH: " + strings.Join(lacks, ", ")
		return f
	}
	line, err := answer(ctx, s, version...)
	if err != nil {
		f.Text = fmt.Sprintf("%s: %v", strings.Join(version, " "), err)
		return f
	}
	f.State, f.Text = Ready, strings.TrimPrefix(line, name+" ")
	return f
}

// pyxis reports whether srun has the options of pyxis.
func pyxis(ctx context.Context, s command.Starter, slurm Finding) Finding {
	f := Finding{Tool: "pyxis", State: Missing, Text: "needs slurm"}
	if slurm.State != Ready {
		return f
	}
	ctx, stop := context.WithTimeout(ctx, toolTimeout)
	defer stop()
	help, err := command.Output(ctx, s, command.Command{Args: []string{"srun", "--help"}})
	switch {
	case err != nil:
		f.Text = fmt.Sprintf("srun --help: %v", err)
	case !bytes.Contains(help, []byte("--container-image")):
		f.Text = "srun has no --container-image: load pyxis in plugstack.conf"
	default:
		f.State, f.Text = Ready, "images are imported on the compute nodes, which need enroot and unsquashfs"
	}
	return f
}

// answer returns the first line that a program prints.
func answer(ctx context.Context, s command.Starter, args ...string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, toolTimeout)
	defer stop()
	out, err := command.Output(ctx, s, command.Command{Args: args})
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line, err
}
