package run

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/preflight"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// site is the machine that env and doctor examine.
type site struct {
	root    sysfs.Root
	reader  *inventory.Reader
	environ []string
}

func here() site {
	return site{root: sysfs.Here(), reader: inventory.New(), environ: os.Environ()}
}

// examiner examines the site with the libraries of every measurement, and more.
func (s site) examiner(more map[string]backend.Library) *preflight.Examiner {
	libraries := preflight.Libraries(backends.Needs())
	maps.Copy(libraries, more)
	return preflight.NewExaminer(s.reader.Machine(), libraries, s.root, backends)
}

// describe returns what may be published about the machine.
func (s site) describe(backends []catalog.Backend) (preflight.Description, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return preflight.Description{}, cli.EnvironmentError("%w", err)
	}
	screen := provenance.ScreenOf(hostname, s.environ)
	e := s.examiner(preflight.Multipliers())
	d := e.Describe(e.Examine(backends))
	d.Program = "cxrun " + cli.Build()
	d.Host = provenance.Host(s.root, screen)
	d.State = s.reader.State()
	d.Environment = screen.Environment(s.environ, rank.SettingsHere().Variables)
	text, err := json.Marshal(d)
	if err != nil {
		return d, err
	}
	if err := screen.Document(text); err != nil {
		return d, fmt.Errorf("cannot describe this machine: %w", err)
	}
	return d, nil
}

func newEnv(s cli.Streams) *cobra.Command {
	var (
		defs   cli.Definitions
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Describe this machine as documents do",
		Long: `Describe this machine: host, accelerators and the links between them, fabric,
libraries, and the environment variables that change what libraries do. The output
may be published: it contains no names, addresses or serial numbers.`,
		Example: `  cxrun env
  cxrun env --json`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cat, err := defs.Load()
			if err != nil {
				return err
			}
			d, err := here().describe(cat.Backends)
			if err != nil {
				return err
			}
			if asJSON {
				return s.JSON(d)
			}
			return printDescription(s.Out, d)
		},
	}
	defs.AddFlag(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// printDescription writes one line for each component, in aligned columns.
func printDescription(out io.Writer, d preflight.Description) error {
	var table [][]string
	row := func(cells ...string) {
		for len(cells) > 1 && cells[len(cells)-1] == "" {
			cells = cells[:len(cells)-1]
		}
		table = append(table, cells)
	}
	row("program", d.Program)
	for _, name := range slices.Sorted(maps.Keys(d.Host)) {
		row("host", name, d.Host[name])
	}
	for _, r := range d.Drivers {
		row("driver", r.Vendor, r.Version, r.Runtime)
	}
	for i := range d.GPUs {
		row(gpuCells(&d.GPUs[i])...)
	}
	if len(d.GPUs) == 0 {
		row("gpu", "none")
	}
	for _, l := range linkLines(d.Links) {
		row("links", l)
	}
	for _, st := range d.State.GPUs {
		row(stateCells(st)...)
	}
	for _, n := range d.NICs {
		state := "down"
		if n.Active {
			state = "active"
		}
		row("fabric", fmt.Sprintf("%d × %s", n.Count, n.Adapter), n.LinkLayer, n.Rate, state, n.Firmware)
	}
	for _, vendor := range slices.Sorted(maps.Keys(d.Undriven)) {
		row("warning", plural.Count(d.Undriven[vendor], vendor+" GPU", vendor+" GPUs")+" that no driver answers for")
	}
	for _, text := range d.Warnings {
		row("warning", text)
	}
	for _, l := range d.Libraries {
		row("library", l.Kind, l.Version, l.SOName, l.BuildID)
	}
	row("backends", strings.Join(d.Backends, " "))
	for _, name := range slices.Sorted(maps.Keys(d.Environment)) {
		row("variable", name+"="+d.Environment[name])
	}
	return cli.Table(out, table)
}

func gpuCells(g *inventory.GPU) []string {
	cells := []string{
		"gpu", fmt.Sprintf("%s %d", g.Vendor, g.Index), g.Product, g.Arch, fmt.Sprintf("%.1f GiB", float64(g.MemoryBytes)/(1<<30)), g.PCIe,
	}
	add := func(ok bool, format string, v any) {
		if ok {
			cells = append(cells, fmt.Sprintf(format, v))
		}
	}
	add(g.NUMANode >= 0, "numa %d", g.NUMANode)
	add(g.ECC != "", "ecc %s", g.ECC)
	add(g.Partition != "", "%s", g.Partition)
	add(g.PowerLimitW > 0, "%d W", g.PowerLimitW)
	add(g.MaxSMMHz > 0, "%d MHz", g.MaxSMMHz)
	return cells
}

func stateCells(s inventory.GPUState) []string {
	throttle := "not throttled"
	if len(s.Throttle) > 0 {
		throttle = strings.Join(s.Throttle, ",")
	}
	return []string{
		"state", fmt.Sprintf("%s %d", s.Vendor, s.Index), fmt.Sprintf("%d MHz", s.SMMHz), fmt.Sprintf("memory %d MHz", s.MemMHz),
		fmt.Sprintf("%d °C", s.TemperatureC), fmt.Sprintf("%d W", s.PowerW), throttle,
		fmt.Sprintf("ecc %d corrected %d uncorrected", s.ECCCorrected, s.ECCUncorrected),
	}
}

// linkLines returns a line for each pair of GPUs, or one line if all pairs are alike.
func linkLines(links []inventory.Link) []string {
	spell := func(l inventory.Link) string {
		if l.Width > 0 {
			return fmt.Sprintf("%s ×%d", l.Kind, l.Width)
		}
		return l.Kind
	}
	if len(links) == 0 {
		return nil
	}
	kind := spell(links[0])
	if !slices.ContainsFunc(links, func(l inventory.Link) bool { return spell(l) != kind }) {
		return []string{fmt.Sprintf("every pair: %s", kind)}
	}
	var lines []string
	for _, l := range links {
		lines = append(lines, fmt.Sprintf("%s %d–%d: %s", l.Vendor, l.A, l.B, spell(l)))
	}
	return lines
}
