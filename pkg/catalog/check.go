package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/strictyaml"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Checker holds the input of checks: well-formed definitions, which may contradict each other, their
// positions, and the diagnostics found so far.
type Checker struct {
	*Catalog
	d *decoder
	// views holds the definitions for suites that select a set of capabilities, by its name, and, under
	// the empty name, for all others.
	views map[string]*Catalog
}

// Diagnose reports a problem of a value of the definitions; at is the address of the value.
func (c *Checker) Diagnose(at any, format string, args ...any) {
	c.d.Diagnose(c.At(at), format, args...)
}

// At returns the position of the value whose address is at.
func (c *Checker) At(at any) strictyaml.Pos { return c.d.Pos(at) }

// Note reports the problems of a file, each once; err is nil or of type strictyaml.Errors.
func (c *Checker) Note(err error) {
	if places, ok := errors.AsType[strictyaml.Errors](err); ok {
		c.d.Note(places)
	}
}

// Sets lists the names of the sets of capabilities, and the empty name for no set.
func (c *Checker) Sets() []string { return slices.Sorted(maps.Keys(c.views)) }

// View returns the definitions for suites that select the named set of capabilities.
func (c *Checker) View(set string) *Catalog { return c.views[set] }

// check reports definitions that contradict each other.
func (c *Checker) check() {
	for _, list := range c.Lists {
		for _, v := range list {
			if own, ok := v.(interface{ Check(c *Checker) }); ok {
				own.Check(c)
			}
		}
	}
	for i := range c.Sampling {
		s := &c.Sampling[i]
		each(s.Blocks, func(_ string, b SamplingBlock) {
			if own, ok := b.(interface{ Check(c *Checker) }); ok {
				own.Check(c)
			}
		})
	}
	for i := range c.Backends {
		b := &c.Backends[i]
		if len(b.Blocks) == 0 {
			c.Diagnose(b, "backend %q has %s", b.Name, noBlock())
		}
		c.checkBackend(b.Blocks, b)
	}
	for i := range c.Platforms {
		c.checkPlatform(&c.Platforms[i])
	}
	for i := range c.Capabilities {
		c.checkCapabilities(&c.Capabilities[i])
	}
	for _, name := range c.Sets() {
		c.checkSupports(name)
	}
	for i := range c.Suites {
		s := &c.Suites[i]
		if len(s.Blocks) == 0 {
			c.Diagnose(&s.Platforms, "suite %q has %s", s.Name, noBlock())
		}
		each(s.Blocks, func(_ string, blocks []SuiteBlock) {
			for _, b := range blocks {
				b.Check(&Checker{c.views[s.Capabilities], c.d, c.views}, s)
			}
		})
	}
}

// checkBackend checks the blocks of a backend in a set of capabilities.
func (c *Checker) checkBackend(blocks map[string]BackendBlock, b *Backend) {
	each(blocks, func(_ string, block BackendBlock) {
		if own, ok := block.(interface{ Check(c *Checker, b *Backend) }); ok {
			own.Check(c, b)
		}
	})
}

// each calls f with each block, in the order of families.
func each[B any](blocks map[string]B, f func(family string, block B)) {
	for _, family := range families.All() {
		if b, ok := blocks[family.Name]; ok {
			f(family.Name, b)
		}
	}
}

// noBlock returns the phrase for a missing block: neither an ep nor a collective block.
func noBlock() string {
	var names []string
	for _, f := range families.All() {
		article := "a "
		if strings.ContainsRune("aeiou", rune(f.Name[0])) {
			article = "an "
		}
		names = append(names, article+f.Name)
	}
	return "neither " + strings.Join(names, " nor ") + " block"
}

func (c *Checker) checkImage(image *string) {
	if strings.Contains(*image, "@") {
		c.Diagnose(image, "image %q has a digest: name a tag; documents record the digest", *image)
	}
}

func (c *Checker) checkPlatform(p *Platform) {
	c.checkDevice(p)
	la := &p.Launch
	if runtimes := vocab.Containers(la.Launcher); slices.Contains(runtimes, la.Container) {
		c.checkRequires(la)
	} else {
		c.Diagnose(&la.Container, "launcher %q has no container %q; choose from %s", la.Launcher, la.Container, strings.Join(runtimes, ", "))
	}
	if la.Container != vocab.NoContainer && p.Image == "" {
		c.Diagnose(&la.Container, "container %q needs an image", la.Container)
	}
	c.checkImage(&p.Image)
	if la.TaskPer != "" && la.Launcher != vocab.Slurm {
		c.Diagnose(&la.TaskPer, "task_per is about slurm; the launcher is %q", la.Launcher)
	}
	if la.QueueMinutes != 0 && la.Launcher != vocab.Slurm {
		c.Diagnose(&la.QueueMinutes, "queue_minutes is about slurm; the launcher is %q", la.Launcher)
	}
	c.checkArgs(la.Salloc, la.Launcher == vocab.Slurm, "salloc", "the launcher is "+la.Launcher)
	c.checkArgs(la.Srun, la.Launcher == vocab.Slurm, "srun", "the launcher is "+la.Launcher)
	c.checkArgs(la.Docker, la.Container == vocab.Docker, "docker", "the container is "+la.Container)
	for i := range p.Backends {
		c.checkImage(&p.Backends[i].Image)
		c.checkSupport(p, &p.Backends[i])
	}
}

// checkRequires requires the operator values that the launcher needs.
func (c *Checker) checkRequires(la *Launch) {
	for _, key := range operator.Needs(la.Launcher, la.Container) {
		if !slices.Contains(la.Requires, key) {
			c.Diagnose(&la.Launcher, "launcher %q with container %q needs the operator value %s; list it under \"requires\"", la.Launcher, la.Container, key)
		}
	}
}

// archs holds the form of the architectures of each vendor's GPUs.
var archs = map[string]struct {
	form *regexp.Regexp
	want string
}{
	vocab.NVIDIA: {regexp.MustCompile(`^sm[1-9][0-9]{1,2}$`), "sm and the compute capability without its dot, such as sm90"},
	vocab.AMD:    {regexp.MustCompile(`^gfx[1-9][0-9a-f]{2,3}$`), "gfx and the version of the instruction set, such as gfx942"},
}

// checkDevice refuses names that no rank on a GPU of the vendor reports.
func (c *Checker) checkDevice(p *Platform) {
	arch, known := archs[p.Vendor]
	if !known {
		return // a host's ranks are not compared with its platform
	}
	if !arch.form.MatchString(p.Arch) {
		c.Diagnose(&p.Arch, "invalid arch %q of vendor %q: want %s", p.Arch, p.Vendor, arch.want)
	}
	if vocab.IsModel(p.Product) {
		return
	}
	hint := vocab.Model(p.Product) // such as h100 for H100
	if hint == p.Product {
		known := namesOf(c.Platforms, func(p *Platform) string { return p.Product })
		hint = vocab.Nearest(p.Product, slices.DeleteFunc(known, func(name string) bool { return !vocab.IsModel(name) }))
	}
	if hint != "" {
		hint = fmt.Sprintf("; did you mean %q?", hint)
	}
	c.Diagnose(&p.Product, "invalid product %q: want the model of the device, such as h100 or mi300x%s", p.Product, hint)
}

// ownedArgs lists arguments that the launchers set themselves, from the case.
func ownedArgs() []string {
	return []string{
		"--nodes", "--ntasks", "--ntasks-per-node", "--gres", "--gpus-per-node", "--time", "--jobid", "--export",
		"--partition", "--account", "--qos", "--nodelist", "--exclude",
		"--container-image", "--container-mounts", "--kill-on-bad-exit",
		"--volume", "--workdir", "--name", "--rm", "--env",
	}
}

// checkArgs refuses arguments of a tool that the platform does not use, and arguments that launchers
// set.
func (c *Checker) checkArgs(args []string, used bool, tool, why string) {
	for i := range args {
		name, _, _ := strings.Cut(args[i], "=")
		switch {
		case !used:
			c.Diagnose(&args[i], "%s arguments have no effect: %s", tool, why)
			return
		case !strings.HasPrefix(name, "--"):
			c.Diagnose(&args[i], "write %s arguments as --name or --name=value, not %q", tool, args[i])
		case slices.Contains(ownedArgs(), name):
			c.Diagnose(&args[i], "%s is set from the case and the operator's values", name)
		}
	}
}

func (c *Checker) checkSupport(p *Platform, s *Support) {
	b := c.Backend(s.Backend)
	if !slices.Contains(b.Vendors, p.Vendor) {
		c.Diagnose(s, "backend %q does not run on vendor %q", b.Name, p.Vendor)
	}
	if len(s.Blocks) == 0 {
		c.Diagnose(s, "platform %q runs nothing of backend %q; leave it out", p.SKU, b.Name)
	}
}

// checkSupports reports blocks that platforms list and their backends lack in a set of capabilities, on
// the platforms of suites that select it.
func (c *Checker) checkSupports(set string) {
	view := c.views[set]
	for i := range view.Platforms {
		p := &view.Platforms[i]
		if set != "" && !slices.ContainsFunc(view.Suites, func(s Suite) bool { return slices.Contains(s.Platforms, p.SKU) }) {
			continue
		}
		for j := range p.Backends {
			b := view.Backend(p.Backends[j].Backend)
			each(p.Backends[j].Blocks, func(family string, block SupportBlock) {
				if b.Blocks[family] == nil {
					c.Diagnose(block, lacksBlock, b.Name, family)
					return
				}
				if own, ok := block.(interface {
					Check(c *Checker, p *Platform, b *Backend)
				}); ok {
					own.Check(c, p, b)
				}
			})
		}
	}
}

const lacksBlock = "backend %q has no %s block"

// FillsNodes refuses worlds that do not fill the nodes of the platform evenly, or that exceed the nodes
// joined by its fabric.
func (c *Checker) FillsNodes(p *Platform, worlds []int) {
	for i, w := range worlds {
		if w > p.GPUsPerNode && w%p.GPUsPerNode != 0 {
			c.Diagnose(&worlds[i], "%d ranks do not fill nodes of %d devices evenly", w, p.GPUsPerNode)
		}
		if p.Scope(w) == vocab.ScopeOut && p.ScaleOut == nil {
			c.Diagnose(&worlds[i], "%d ranks exceed the scale-up domain of %d, and the platform has no scale_out", w, p.ScaleUp.Domain)
		}
	}
}

// Sampled refuses a block of a suite if its profile (own, or else the suite's) has no sample counts of
// the family.
func (c *Checker) Sampled(block SuiteBlock, family, own string, s *Suite) {
	profile := cmp.Or(own, s.Sampling)
	if c.SamplingProfile(profile).Blocks[family] == nil {
		f, _ := families.Find(family)
		c.Diagnose(block, "profile %q has no sample counts of %s; give it a block %q", profile, f.Cases, family)
	}
}

// Ascend refuses a list of numbers that do not ascend. Lists have no duplicates.
func (c *Checker) Ascend(numbers *[]int) {
	if !slices.IsSorted(*numbers) {
		c.Diagnose(numbers, "the numbers must ascend")
	}
}

// Offering returns a family's blocks of the named backends, and reports backends that have none.
func Offering[T any](c *Checker, family string, backends []string) []*T {
	var out []*T
	for i := range backends {
		b := c.Backend(backends[i])
		if has := BackendOf[T](b); has != nil {
			out = append(out, has)
		} else {
			c.Diagnose(&backends[i], lacksBlock, b.Name, family)
		}
	}
	return out
}

// Offered reports requested values that none of the backends lists.
func Offered[T any](c *Checker, what string, asked []string, backends []*T, list func(*T) []string) {
	for i, name := range asked {
		if len(backends) > 0 && !slices.ContainsFunc(backends, func(b *T) bool { return slices.Contains(list(b), name) }) {
			c.Diagnose(&asked[i], "no backend of this block has the %s %q", what, name)
		}
	}
}
