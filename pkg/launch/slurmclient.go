package launch

import (
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/command"
)

// SlurmClient starts Slurm's commands without the variables that they read options from: a batch script, a step or
// a profile may have set these for another command. Variables that name the cluster remain.
type SlurmClient struct{ command.Starter }

// Start implements command.Starter.
func (s SlurmClient) Start(c command.Command) (command.Process, error) {
	c.Without = slurmOption
	return s.Starter.Start(c)
}

// slurmOption reports whether a variable is an option of Slurm's commands or describes a job, and does not name
// the cluster.
func slurmOption(name string) bool {
	return slices.ContainsFunc([]string{"SLURM", "SALLOC_", "SRUN_", "SBATCH_", "SCANCEL_", "SQUEUE_"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	}) && !slices.Contains([]string{"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT"}, name)
}
