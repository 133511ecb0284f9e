package catalog

import (
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// check reports definitions that are well formed and contradict each other.
func (l *loader) check() {
	for i := range l.cat.Workloads {
		l.checkWorkload(&l.cat.Workloads[i])
	}
	for i := range l.cat.Sampling {
		s := &l.cat.Sampling[i].EP
		if s.ChainDrop > s.ChainItersPerTrial-2 {
			l.fault(l.pos[&s.ChainDrop], "chain_drop must leave at least two of the %d chained pairs", s.ChainItersPerTrial)
		}
	}
	for i := range l.cat.Backends {
		l.checkBackend(&l.cat.Backends[i])
	}
	for i := range l.cat.Platforms {
		l.checkPlatform(&l.cat.Platforms[i])
	}
	for i := range l.cat.Suites {
		l.checkSuite(&l.cat.Suites[i])
	}
	l.checkRules()
}

func (l *loader) checkWorkload(w *Workload) {
	if w.TopK > w.Experts {
		l.fault(l.pos[&w.TopK], "topk %d exceeds the %d experts", w.TopK, w.Experts)
	}
	l.checkLadders(w.Ladders)
}

func (l *loader) checkLadders(ls []Ladder) {
	for i := range ls {
		if !slices.IsSorted(ls[i].Tokens) {
			l.fault(l.pos[&ls[i].Tokens], "the %s ladder must ascend", ls[i].Phase)
		}
	}
}

func (l *loader) checkBackend(b *Backend) {
	if b.EP == nil && b.Collective == nil {
		l.fault(l.pos[b], "backend %q has neither an ep nor a collective block", b.Name)
	}
	if b.EP == nil {
		return
	}
	for i := range b.EP.OffPath {
		if p := &b.EP.OffPath[i]; !slices.Contains(b.EP.Precisions, *p) {
			l.fault(l.pos[p], "off_path precision %q is not among the backend's precisions", *p)
		}
	}
}

func (l *loader) checkPlatform(p *Platform) {
	la := &p.Launch
	if la.Container == "pyxis" && la.Launcher != "slurm" {
		l.fault(l.pos[&la.Container], "pyxis is a plugin of slurm; the launcher is %q", la.Launcher)
	}
	if la.Container != "none" && p.Image == "" {
		l.fault(l.pos[&la.Container], "container %q needs an image", la.Container)
	}
	l.checkArgs(la.Salloc, la.Launcher == "slurm", "salloc", "the launcher is "+la.Launcher)
	l.checkArgs(la.Srun, la.Launcher == "slurm", "srun", "the launcher is "+la.Launcher)
	l.checkArgs(la.Docker, la.Container == "docker", "docker", "the container is "+la.Container)
	for i := range p.Backends {
		l.checkSupport(p, &p.Backends[i])
	}
}

// ownedArgs are arguments that the launchers set themselves, from the case.
func ownedArgs() []string {
	return []string{
		"--nodes", "--ntasks", "--ntasks-per-node", "--gres", "--gpus-per-node", "--time", "--jobid", "--export",
		"--partition", "--account", "--qos", "--nodelist", "--exclude",
		"--container-image", "--container-mounts", "--kill-on-bad-exit",
		"--volume", "--workdir", "--name", "--rm", "--env",
	}
}

// checkArgs refuses arguments of a tool that the platform does not use, and
// ones that are not its to say.
func (l *loader) checkArgs(args []string, used bool, tool, why string) {
	for i := range args {
		p := l.pos[&args[i]]
		name, _, _ := strings.Cut(args[i], "=")
		switch {
		case !used:
			l.fault(p, "%s arguments are of no use: %s", tool, why)
			return
		case !strings.HasPrefix(name, "--"):
			l.fault(p, "write %s arguments as --name or --name=value, not %q", tool, args[i])
		case slices.Contains(ownedArgs(), name):
			l.fault(p, "%s is set from the case and the operator's values", name)
		}
	}
}

func (l *loader) checkSupport(p *Platform, s *Support) {
	b := l.cat.Backend(s.Backend)
	if !slices.Contains(b.Vendors, p.Vendor) {
		l.fault(l.pos[s], "backend %q does not run on vendor %q", b.Name, p.Vendor)
	}
	if len(s.EP) == 0 && len(s.Collective) == 0 {
		l.fault(l.pos[s], "platform %q runs nothing of backend %q; leave it out", p.SKU, b.Name)
	}
	if len(s.EP) > 0 && b.EP == nil {
		l.fault(l.pos[&s.EP], "backend %q has no ep block", b.Name)
	}
	if len(s.Collective) > 0 && b.Collective == nil {
		l.fault(l.pos[&s.Collective], "backend %q has no collective block", b.Name)
	}
	for i := range s.EP {
		d := &s.EP[i]
		if b.EP != nil {
			l.checkDegrees(p, b, d)
		}
		l.checkWorlds(p, d.Degrees)
	}
	l.checkWorlds(p, s.Collective)
}

// checkDegrees refuses degrees of a mode that the backend does not have, and
// ones that a rule says do not run.
func (l *loader) checkDegrees(p *Platform, b *Backend, d *Degrees) {
	if b.EP.Mode(d.Mode) == nil {
		l.fault(l.pos[d], "backend %q has no mode %q%s", b.Name, d.Mode,
			Hint(d.Mode, Names(b.EP.Modes, func(m *EPMode) string { return m.Name })))
		return
	}
	for i := range d.Degrees {
		if r := b.EP.rule(p, d.Mode, d.Degrees[i]); r != nil {
			l.fault(l.pos[&d.Degrees[i]], "EP%d runs here, and %s says why it does not: %s", d.Degrees[i], l.pos[r], r.Reason)
		}
	}
}

// checkWorlds refuses worlds that do not fill their nodes evenly.
func (l *loader) checkWorlds(p *Platform, worlds []int) {
	for i := range worlds {
		if w := worlds[i]; w > p.GPUsPerNode && w%p.GPUsPerNode != 0 {
			l.fault(l.pos[&worlds[i]], "%d ranks do not fill nodes of %d devices evenly", w, p.GPUsPerNode)
		}
		if w := worlds[i]; p.Scope(w) == vocab.ScopeOut && p.ScaleOut == nil {
			l.fault(l.pos[&worlds[i]], "%d ranks exceed the scale-up domain of %d, and the platform has no scale_out", w, p.ScaleUp.Domain)
		}
	}
}

// kvTransfer is the suite name by which the dashboard recognises KV-cache cases,
// whose rows are others.
const kvTransfer = "kv-transfer"

func (l *loader) checkSuite(s *Suite) {
	if len(s.EP) == 0 && len(s.Collective) == 0 {
		l.fault(l.pos[&s.Platforms], "suite %q has neither an ep nor a collective block", s.Name)
	}
	if len(s.EP) > 0 && s.Name == kvTransfer {
		l.fault(l.pos[&s.EP], "the dashboard reads cases of a suite named %q as transfers of KV caches; name this EP suite otherwise", s.Name)
	}
	for i := range s.EP {
		l.checkEPBlock(&s.EP[i])
	}
	for i := range s.Collective {
		l.checkCollectiveBlock(s, &s.Collective[i])
	}
}

func (l *loader) checkEPBlock(b *EPBlock) {
	w := l.cat.Workload(b.Workload)
	l.checkLadders(b.Ladders)
	for i := range b.Phases {
		if len(b.Ladder(w, b.Phases[i])) == 0 {
			l.fault(l.pos[&b.Phases[i]], "there is no %s ladder, neither here nor in workload %q", b.Phases[i], w.Name)
		}
	}
	largest := 0
	for _, phase := range b.Phases {
		largest = max(largest, slices.Max(append(b.Ladder(w, phase), 0)))
	}
	for i := range b.Degrees {
		if most := MostTokens(b.Degrees[i], w.TopK); largest > most {
			l.fault(l.pos[&b.Degrees[i]], "%d ranks of %d tokens, each of %d experts: every rank holds the routing of all of them, so that tokens go to %d", b.Degrees[i], largest, w.TopK, most)
		}
		if w.Experts%b.Degrees[i] != 0 {
			l.fault(l.pos[&b.Degrees[i]], "the %d experts of workload %q do not spread evenly over %d ranks", w.Experts, w.Name, b.Degrees[i])
		}
	}
	var modes, precisions, contracts []string
	for i := range b.Backends {
		be := l.cat.Backend(b.Backends[i])
		if be.EP == nil {
			l.fault(l.pos[&b.Backends[i]], "backend %q has no ep block", be.Name)
			continue
		}
		modes = append(modes, Names(be.EP.Modes, func(m *EPMode) string { return m.Name })...)
		precisions = append(precisions, be.EP.Precisions...)
		contracts = append(contracts, be.EP.Contracts...)
	}
	l.checkOffered(b.Modes, modes, "mode")
	l.checkOffered(b.Precisions, precisions, "precision")
	l.checkOffered(b.Contracts, contracts, "timing contract")
}

func (l *loader) checkCollectiveBlock(s *Suite, b *CollectiveBlock) {
	if b.Sizes != nil && b.Sizes.From > b.Sizes.To {
		l.fault(l.pos[&b.Sizes.From], "the sizes end before they begin")
	}
	l.checkTraffic(s, b)
	var ops, dtypes, redops, modes, registrations []string
	for i := range b.Backends {
		be := l.cat.Backend(b.Backends[i])
		if be.Collective == nil {
			l.fault(l.pos[&b.Backends[i]], "backend %q has no collective block", be.Name)
			continue
		}
		ops = append(ops, be.Collective.Ops...)
		dtypes = append(dtypes, be.Collective.DTypes...)
		redops = append(redops, be.Collective.RedOps...)
		modes = append(modes, be.Collective.Modes...)
		registrations = append(registrations, be.Collective.Registrations...)
	}
	l.checkOffered(b.Ops, ops, "operation")
	l.checkOffered(b.DTypes, dtypes, "element type")
	l.checkOffered(b.RedOps, redops, "reduction")
	l.checkOffered(b.Modes, modes, "timing mode")
	l.checkOffered(b.Registrations, registrations, "registration")
}

// checkOffered refuses what none of the block's backends can do.
func (l *loader) checkOffered(asked, offered []string, what string) {
	if len(offered) == 0 {
		return
	}
	for i := range asked {
		if !slices.Contains(offered, asked[i]) {
			l.fault(l.pos[&asked[i]], "no backend of this block has the %s %q", what, asked[i])
		}
	}
}
