package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// fits compares the product and the architecture that a device's runtime reports
// with the platform of the cell. Any processor will do for a platform of hosts:
// it stands for the machine at hand.
func fits(cell plan.Cell, product, arch string) error {
	gpu := inventory.GPU{Product: product}
	arch, _, _ = strings.Cut(arch, ":") // gfx942:sramecc+:xnack-
	if cell.Vendor == vocab.Host || gpu.Model() == cell.Product && arch == cell.DeviceArch {
		return nil
	}
	return fmt.Errorf("device is %q (%s), but platform %s has %s (%s)", product, arch, cell.SKU, cell.Product, cell.DeviceArch)
}

// admit returns an error for the first cell whose platform has devices that this
// machine lacks. It does not check cells whose ranks start through Slurm, if
// salloc is installed here.
func admit(cells []plan.Cell, gpus []inventory.GPU) error {
	for _, c := range cells {
		if c.Vendor == vocab.Host || c.Launcher == "slurm" && command.Installed("salloc") {
			continue
		}
		if !slices.ContainsFunc(gpus, func(g inventory.GPU) bool {
			arch := g.Arch
			if arch == "" { // the driver did not say; the ranks will
				arch = c.DeviceArch
			}
			return g.Vendor == c.Vendor && fits(c, g.Product, arch) == nil
		}) {
			return cli.EnvironmentError("platform %s has %s (%s), and this machine has %s: run its cells on runners labelled %s, or sweep without --sku",
				c.SKU, c.Product, c.DeviceArch, spell(gpus), c.Runner)
		}
	}
	return nil
}

// spell counts devices by product and architecture.
func spell(gpus []inventory.GPU) string {
	var kinds []string
	count := map[string]int{}
	for _, g := range gpus {
		kind := fmt.Sprintf("%s (%s)", g.Product, g.Arch)
		if count[kind]++; count[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return "no GPU"
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d × %s", count[kind], kind)
	}
	return strings.Join(kinds, ", ")
}
