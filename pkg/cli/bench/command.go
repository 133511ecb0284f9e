package bench

import (
	"io"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// Command is `cxrun bench NAME`, which measures a family without a plan.
type Command struct {
	Family                    plan.Family
	Use, Short, Long, Example string
	Words                     []string            // valid arguments; empty: it takes none
	Values                    map[string][]string // of flags, for the completion of a shell
	// Flags adds the flags to fs. It returns the measurement that they describe, and the groups in
	// which help shows them.
	Flags func(fs *pflag.FlagSet) (Measurement, []Group)
}

// Measurement is described by the flags of a command.
type Measurement interface {
	Options() *Output
	// Ranks returns how many ranks measure the words; 0: one for each device.
	Ranks(words []string) (int, error)
	// Plan returns the cases of the words with a backend on a world of ranks.
	Plan(words []string, cat *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error)
	Report(head Head) Reporter
}

// Filed is a Measurement whose cases name files; see shard.Shard.
type Filed interface {
	Files() map[string][]byte
}

// PerCaller is a Measurement whose cases differ if the library takes the algorithm for each call. PerCall is
// called before Plan.
type PerCaller interface {
	PerCall(is bool)
}

// Endless is a Measurement whose cases may be measured again and again, until the user ends it.
type Endless interface {
	Endless() bool
}

// Follower is a Reporter whose table grows while a case runs. It prints every document, whatever
// its outcome.
type Follower interface {
	// Fit adapts the table to a terminal of this width. It is not called without a terminal.
	Fit(width int)
	// Grow prints the complete rows of a case that is running.
	Grow(w io.Writer, d result.Document)
	// Foot ends the table.
	Foot(w io.Writer)
}

// Translator is a Reporter that can write the file of -J in the layout of another program. is reports whether it does.
type Translator interface {
	Translate() (text []byte, is bool, err error)
}

// Reporter collects the documents of a measurement. Encoded as JSON, it is the command's output.
type Reporter interface {
	// Title returns the end of the table's first line; place is a phrase such as "on backend host
	// (asked for)".
	Title(place string) string
	// Regressed adds lines about sizes that are slower than in a baseline. It is called before Add.
	Regressed(lines []string)
	Add(d result.Document) // of the family of the command
	Print(w io.Writer, d result.Document)
	// Broken returns the thresholds that were broken, one line each.
	Broken() []string
	// Err returns nil, or the error with which the program ends, with its exit code.
	Err() error
	// Explain adds to the error with which the command ends how other flags would avoid it.
	Explain(err error) error
}
