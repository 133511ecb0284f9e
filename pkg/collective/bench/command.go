// Package bench is `cxrun bench OP`. Its flags have the spelling and meaning of nccl-tests' flags. It
// plans the cases that they select, and prints results in nccl-tests' columns or as JSON.
package bench

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Command is `cxrun bench OP`. The commands of the other families are its subcommands.
var Command = bench.Command{
	Family: collective.Name,
	Use:    "bench OP",
	Short:  "Measure collectives (nccl-tests), KV caches (NIXL), copies (nvbandwidth), expert parallelism, overlap",
	Long: `Measure one collective operation on this machine, without a plan and without MPI.
Flags and columns have the names and the meaning of nccl-tests'; docs/bench.md lists
the differences flag by flag. The processes that mpirun, srun or torchrun starts with
one command are the ranks of one measurement.

'cxrun bench ep' measures expert-parallel dispatch and combine, 'cxrun bench schedule' a
collective by the steps of a schedule, 'cxrun bench kv' transfers of KV caches by NIXL and
other libraries, 'cxrun bench copy' copies of memory as nvbandwidth does, and
'cxrun bench overlap' matrix products beside communication.

Operations: ` + strings.Join(vocab.Ops(), ", ") + `.

The results that the timed windows leave, and all results of one untimed window, are
checked bit for bit. The exit code is 1 if a result is wrong, a case failed or a
threshold is missed, and 3 if this machine cannot run the case.`,
	Example: `  cxrun bench all_reduce -b 8 -e 1G -f 2
  cxrun bench all_reduce -b 8 -e 4G -f 2 -d bfloat16 -G 20 -R 2 --json
  cxrun bench broadcast -r -1 -b 1M -e 1M --trials 20 --percentiles
  cxrun bench all_gather -b 1M -e 1G -f 4 --min-busbw 1G=300 --max-time 1M=40
  cxrun bench reduce_scatter --backend host -t 4 -b 1K -e 1M -f 4`,
	Words: vocab.Ops(),
	Values: map[string][]string{
		"op": append(vocab.RedOps(), catalog.All), "datatype": append(vocab.DTypes(), catalog.All), "buffers": Buffers(),
	},
	Flags: func(fs *pflag.FlagSet) (bench.Measurement, []bench.Group) {
		f, groups := NewFlags(fs)
		return f, groups
	},
}

// Ranks implements bench.Measurement.
func (f *Flags) Ranks(words []string) (int, error) {
	return f.Ask(func() (Request, error) { return f.Request(words[0]) })
}

// Ask calls request, keeps the result for Asked, and returns its number of ranks.
func (f *Flags) Ask(request func() (Request, error)) (int, error) {
	r, err := request()
	f.request = &r
	return r.World, err
}

// Asked returns the request of the last Ask.
func (f *Flags) Asked() *Request { return f.request }

// Plan implements bench.Measurement.
func (f *Flags) Plan(_ []string, _ *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
	return f.request.Plan(be, world)
}

// Endless implements bench.Endless.
func (f *Flags) Endless() bool { return f.request.Cycles == 0 }

// PerCall implements bench.PerCaller.
func (f *Flags) PerCall(is bool) { f.request.perCall = is }

// Files implements bench.Filed.
func (f *Flags) Files() map[string][]byte { return f.request.Files }

// Report implements bench.Measurement.
func (f *Flags) Report(head bench.Head) bench.Reporter { return NewReport(f.request, head) }
