package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// simulated is the result of a simulation as JSON. All times come from a model.
type simulated struct {
	Origin     string `json:"origin"` // simulated
	Collective string `json:"collective"`
	Schedule   string `json:"schedule"`
	Ranks      int    `json:"ranks"`
	Width      int    `json:"width,omitempty"`    // as the schedule and the topology use it
	Segments   int    `json:"segments,omitempty"` // as the schedule uses them
	Topology   string `json:"topology"`
	Sharing    string `json:"sharing"`
	// Model has the constants of the machine. Digest also covers its measured times.
	Model    simulate.Model       `json:"model"`
	Digest   string               `json:"model_sha256"`
	Bytes    int64                `json:"bytes"` // of the whole vector
	Messages int                  `json:"messages"`
	Makespan simulate.Picoseconds `json:"makespan_ns"`
	// Path is the chain of ops that determines the makespan, which is the sum of its times.
	Path struct {
		Ops int `json:"ops"`
		simulate.Parts
	} `json:"critical_path"`
}

// simulating has the flags of cxrun schedule simulate.
type simulating struct {
	scheduled
	size, topology, model, svg string
	constants                  simulate.Model
	bandwidth, reduceBandwidth float64
	networkBandwidth           float64
	json                       bool
}

func newScheduleSimulate(s cli.Streams) *cobra.Command {
	r := simulating{scheduled: scheduled{Streams: s}}
	cmd := &cobra.Command{
		Use:   "simulate " + ofFileOrName,
		Short: "Predict the time of a schedule on a model of a machine",
		Long: `Predict the time of a schedule on a model of a machine, from the common start of all
ranks to the end of the last, and split the critical path exactly into its parts: the
latency of links, bytes on them, sums, and waits for engines, links and buffers. The
schedule is verified first.

Topologies: full (a link between any two ranks), switch, ring, torus and mesh with --width
ranks in a row, and hosts of --width ranks each: a link between any two ranks of a host, and
a network adapter for each rank. Sharing of links: unloaded (none), fifo (store and forward,
one message after another), fair (all at once, at max-min fair rates).

--model takes the costs from a file instead, such as the measured times between any two ranks
that 'cxrun bench p2p --model FILE' writes.

The exit code is 1 if the schedule is wrong, and 2 if a flag, a plan or a model is.`,
		Example: `  cxrun schedule simulate all_reduce ring --ranks 8 --bytes 1M
  cxrun schedule simulate all_gather direct --ranks 16 --topology ring --sharing fair --json
  cxrun schedule simulate all_gather hierarchical_sliced --ranks 16 --width 8 --topology hosts --bandwidth 370
  cxrun schedule simulate all_gather rotation --ranks 4 --bytes 4M --model host.yaml`,
		Args: ofSchedule,
		RunE: r.run,
	}
	fs := cmd.Flags()
	r.add(fs)
	fs.StringVar(&r.size, "bytes", "1M", "take a whole vector of `SIZE`, in bytes or with K, M or G (powers of 1024, also as MB or MiB)")
	fs.StringVar(&r.topology, "topology", "full", "connect the ranks as `NAME`: full, switch, ring, torus, mesh or hosts")
	fs.StringVar(&r.constants.Sharing, "sharing", string(simulate.Unloaded), "let messages share links as `MODEL` says: unloaded, fifo or fair")
	fs.Float64Var(&r.constants.Latency, "latency", 1000, "let each link take `NS` nanoseconds")
	fs.Float64Var(&r.bandwidth, "bandwidth", 50, "let each link carry `GBPS` times 10⁹ bytes per second")
	fs.Float64Var(&r.reduceBandwidth, "reduce-bandwidth", 0, "let a rank add `GBPS` times 10⁹ bytes per second; 0: no time")
	fs.IntVar(&r.constants.Engines, "engines", 1, "let a rank send `N` messages at the same time; 0: any number")
	fs.Float64Var(&r.constants.NetworkLatency, "network-latency", 2500, "let each of the two links between a rank and one of another host take `NS` nanoseconds")
	fs.Float64Var(&r.networkBandwidth, "network-bandwidth", 50, "let the network adapter of a rank carry `GBPS` times 10⁹ bytes per second each way")
	fs.IntVar(&r.constants.NetworkEngines, "network-engines", 1, "let a rank send `N` messages to other hosts at the same time; 0: any number")
	fs.StringVar(&r.model, "model", "", "take sharing, engines and costs from `FILE`")
	fs.BoolVar(&r.json, "json", false, "write JSON")
	fs.StringVar(&r.svg, "svg", "", "draw the timeline in `FILE`")
	return cmd
}

func (r *simulating) run(c *cobra.Command, args []string) error {
	if err := r.read(c, args); err != nil {
		return err
	}
	vector, err := bench.ParseSize(r.size)
	if err != nil {
		return cli.UsageError("--bytes: %w", err)
	}
	m, constants, err := r.machine(c, vector)
	if err != nil {
		return err
	}
	if _, err := r.verified(c.Context()); err != nil {
		return err
	}
	p := r.program
	t, err := atOnce(c.Context(), func() (*simulate.Timeline, error) { return simulate.Trace(c.Context(), p, m, vector, 1) })
	if errors.Is(err, errInterrupted) {
		return err
	}
	if err != nil {
		return cli.UsageError("%w", err)
	}
	out := simulated{
		Origin: "simulated", Collective: string(p.Collective), Schedule: p.Name, Ranks: p.Ranks,
		Topology: m.Topology.Name, Sharing: string(m.Sharing), Model: constants.Constants(), Digest: constants.SHA256(), Bytes: vector, Messages: t.Messages, Makespan: t.Makespan,
	}
	path := t.CriticalPath()
	out.Path.Ops, out.Path.Parts = len(path.Steps), path.Parts
	if r.plan == nil {
		shape, _ := schedule.ShapeOf(p.Name, p.Collective, r.Shape) // there is a program
		out.Width, out.Segments = shape.Width, shape.Segments
	}
	if simulate.HasRows(r.topology) {
		out.Width = r.WithDefaults().Width
	}
	return r.print(&out, t, m.Table != nil)
}

// machine returns the machine of the flags or the file of a model, with the model.
func (r *simulating) machine(c *cobra.Command, vector int64) (m simulate.Machine, model simulate.Model, err error) {
	model = r.constants
	for _, flag := range []struct {
		name string
		ok   bool
		want string
	}{
		{"bytes", vector > 0, "a size above 0"},
		{"bandwidth", r.bandwidth > 0 && !math.IsInf(r.bandwidth, 1), "a finite number above 0"},
		{"reduce-bandwidth", r.reduceBandwidth >= 0 && !math.IsInf(r.reduceBandwidth, 1), "a finite number of at least 0"},
		{"latency", model.Latency >= 0 && model.Latency <= 1e12, "a number from 0 to 1e12"},
		{"engines", model.Engines >= 0, "a number of at least 0"},
		{"network-latency", model.NetworkLatency >= 0 && model.NetworkLatency <= 1e12, "a number from 0 to 1e12"},
		{"network-bandwidth", r.networkBandwidth > 0 && !math.IsInf(r.networkBandwidth, 1), "a finite number above 0"},
		{"network-engines", model.NetworkEngines >= 0, "a number of at least 0"},
	} {
		if strings.HasPrefix(flag.name, "network-") && r.topology != "hosts" && c.Flags().Changed(flag.name) {
			return m, model, cli.UsageError("--%s is for --topology hosts: no other has a network", flag.name)
		}
		if !flag.ok {
			return m, model, cli.UsageError("--%s %s: want %s", flag.name, c.Flag(flag.name).Value, flag.want)
		}
	}
	t, err := simulate.NewTopology(r.topology, r.Ranks, r.Width)
	if err != nil {
		return m, model, cli.UsageError("--%w", err)
	}
	model.PerByte, model.NetworkByte = 1/r.bandwidth, 1/r.networkBandwidth
	if r.reduceBandwidth > 0 {
		model.ReduceByte = 1 / r.reduceBandwidth
	}
	if r.topology != "hosts" {
		model.NetworkLatency, model.NetworkByte, model.NetworkEngines = 0, 0, 0
	}
	if r.model != "" {
		if model, err = modelOf(c, r.model); err != nil {
			return m, model, cli.UsageError("--model: %w", err)
		}
	}
	if m, err = model.Machine(t); err != nil {
		err = cli.UsageError("--model %s: %w", r.model, err)
	}
	return m, model, err
}

// print draws the timeline if --svg is given, and prints the result. measured reports whether the model has
// measured times of whole messages; messages then wait for no links.
func (r *simulating) print(out *simulated, t *simulate.Timeline, measured bool) error {
	summary := fmt.Sprintf("simulated: %s %s of %d bytes, %s%s on a %s (%s): %.3f µs",
		out.Schedule, out.Collective, out.Bytes, plural.Count(out.Ranks, "rank", "ranks"), out.shape(), out.Topology, out.Sharing, out.Makespan.Nanoseconds()/1000)
	text, err := out.machine()
	if err != nil {
		return err
	}
	if r.svg != "" {
		note := text
		if r.model != "" { // its origin can be longer than a line of a drawing
			note = fmt.Sprintf("model: %s, SHA-256 of its figures %.12s…", filepath.Base(r.model), out.Digest)
		}
		if err := drawn(r.svg, t, summary, note, "time in µs", simulate.Microsecond); err != nil {
			return err
		}
	}
	if r.json {
		return json.NewEncoder(r.Out).Encode(out)
	}
	fmt.Fprintf(r.Out, "%s, %s\n%s\n", summary, plural.Count(out.Messages, "message", "messages"), text)
	var words []string
	for _, part := range out.Path.List() {
		if measured && part.Name == "wait for links" {
			part.Name = "slowed down by other messages"
		}
		if part.Time > 0 {
			words = append(words, fmt.Sprintf("%s %.3f µs", part.Name, part.Time.Nanoseconds()/1000))
		}
	}
	if out.Path.Ops > 0 {
		fmt.Fprintf(r.Out, "critical path of %s: %s\n", plural.Count(out.Path.Ops, "op", "ops"), strings.Join(words, ", "))
	}
	return nil
}

// shape returns the width and the segments in words, without those that are not used.
func (s *simulated) shape() string {
	var words []string
	if s.Width > 0 {
		words = append(words, fmt.Sprintf("width %d", s.Width))
	}
	if s.Segments > 0 {
		words = append(words, plural.Count(s.Segments, "segment", "segments"))
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// machine describes the model in a line, by the keys of its file.
func (s *simulated) machine() (string, error) {
	var b bytes.Buffer
	if err := s.Model.Write(&b); err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i := range lines {
		lines[i] = strings.Replace(lines[i], ": ", " ", 1)
	}
	return "model: " + strings.Join(lines, ", "), nil
}

// modelOf reads the model of a machine.
func modelOf(c *cobra.Command, file string) (simulate.Model, error) {
	for _, name := range []string{"sharing", "latency", "bandwidth", "reduce-bandwidth", "engines", "network-latency", "network-bandwidth", "network-engines"} {
		if c.Flags().Changed(name) {
			return simulate.Model{}, fmt.Errorf("the model has its own --%s: leave the flag out", name)
		}
	}
	data, err := safefile.Read(file, studyLimit)
	if err != nil {
		return simulate.Model{}, err
	}
	return simulate.ReadModel(file, data)
}
