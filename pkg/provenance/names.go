package provenance

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// named are variables whose value names this machine, its user or its place in a fleet.
	named = []string{
		"HOSTNAME", "HOST", "USER", "LOGNAME", "HOME", "RUNNER_NAME", "SLURMD_NODENAME", "SLURM_CLUSTER_NAME",
		"SLURM_SUBMIT_HOST", "SLURM_JOB_ACCOUNT", "SLURM_JOB_USER", "MASTER_ADDR",
	}
	// nodeLists are variables whose value is a list of hosts in the compressed form of
	// Slurm.
	nodeLists = []string{"SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST"}
	// secret matches variables whose value is a credential.
	secret = regexp.MustCompile(`(?i)(^|_)(TOKEN|SECRET|PASS|PASSWD|PASSWORD|CREDENTIALS?|(API|ACCESS|PRIVATE|SIGNING)_?KEY)(_|$)`)
)

// private returns what a Screen must find: the names of this machine, and the values of
// secrets.
func private(hostname string, environ []string) (names, secrets []string) {
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			n = n[strings.LastIndexByte(n, '/')+1:]
			short, _, _ := strings.Cut(n, ".")
			out = append(out, n, short)
		}
	}
	add(hostname)
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case secret.MatchString(name):
			if len(value) >= 8 {
				secrets = append(secrets, value)
			}
		case slices.Contains(named, name):
			add(value)
		case slices.Contains(nodeLists, name):
			add(hosts(value)...)
		}
	}
	return out, secrets
}

var (
	nodeGroup = regexp.MustCompile(`([^,\[\]]+)(?:\[([^\]]*)\])?`)
	maxNodes  = 4096
)

// hosts expands the compressed form of Slurm: "gpu[01-03,7],login" is gpu01, gpu02, gpu03,
// gpu7 and login.
func hosts(list string) []string {
	var out []string
	for _, m := range nodeGroup.FindAllStringSubmatch(list, -1) {
		if m[2] == "" {
			out = append(out, m[1])
			continue
		}
		for part := range strings.SplitSeq(m[2], ",") {
			first, last, isRange := strings.Cut(part, "-")
			if !isRange {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err1 != nil || err2 != nil {
				continue
			}
			for i := from; i <= to && len(out) < maxNodes; i++ {
				out = append(out, fmt.Sprintf("%s%0*d", m[1], len(first), i))
			}
		}
	}
	return out
}
