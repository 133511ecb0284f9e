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
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// simulated is the result of a simulation as JSON. All times are those of a model.
type simulated struct {
	Origin     string `json:"origin"` // simulated
	Collective string `json:"collective"`
	Schedule   string `json:"schedule"`
	Ranks      int    `json:"ranks"`
	Width      int    `json:"width,omitempty"`    // as the schedule and the topology use it
	Segments   int    `json:"segments,omitempty"` // as the schedule uses them
	Topology   string `json:"topology"`
	Sharing    string `json:"sharing"`
	// Model has the constants of the machine, and Digest is that of its measured times, too.
	Model    simulate.Model `json:"model"`
	Digest   string         `json:"model_sha256"`
	Bytes    int64          `json:"bytes"` // of the whole vector
	Messages int            `json:"messages"`
	Makespan float64        `json:"makespan_ns"`
	// Path is the split of the makespan: the sum of its times is the makespan.
	Path criticalPath `json:"critical_path"`
}

// criticalPath is the chain of ops that determines a makespan, and what its time consists of.
type criticalPath struct {
	Ops        int     `json:"ops"`
	Start      float64 `json:"start_ns"`
	Issue      float64 `json:"issue_ns"`
	Overhead   float64 `json:"overhead_ns"`
	Memory     float64 `json:"memory_ns"`
	Latency    float64 `json:"latency_ns"`
	Bytes      float64 `json:"bytes_ns"`
	Reduce     float64 `json:"reduce_ns"`
	Copy       float64 `json:"copy_ns"`
	EngineWait float64 `json:"engine_wait_ns"`
	LinkWait   float64 `json:"link_wait_ns"`
	BufferWait float64 `json:"buffer_wait_ns"`
	// measured reports whether the times are those of whole messages. There are no links then, and
	// LinkWait is by how much messages that were under way together slowed each other down.
	measured bool
}

func criticalPathOf(p simulate.Path, measured bool) criticalPath {
	return criticalPath{
		len(p.Steps), p.Start.Nanoseconds(), p.Issue.Nanoseconds(), p.Overhead.Nanoseconds(), p.Memory.Nanoseconds(), p.Latency.Nanoseconds(), p.Bytes.Nanoseconds(), p.Reduce.Nanoseconds(),
		p.Copy.Nanoseconds(), p.EngineWait.Nanoseconds(), p.LinkWait.Nanoseconds(), p.BufferWait.Nanoseconds(),
		measured,
	}
}

// String lists the parts that take time.
func (p criticalPath) String() string {
	var words []string
	others := "wait for links"
	if p.measured {
		others = "slowed down by other messages"
	}
	for _, part := range []struct {
		name string
		ns   float64
	}{
		{"start", p.Start},
		{"issue", p.Issue},
		{"overhead", p.Overhead},
		{"memory", p.Memory},
		{"latency", p.Latency},
		{"bytes", p.Bytes},
		{"reduce", p.Reduce},
		{"copy", p.Copy},
		{"wait for engines", p.EngineWait},
		{others, p.LinkWait},
		{"wait for buffers", p.BufferWait},
	} {
		if part.ns > 0 {
			words = append(words, fmt.Sprintf("%s %.3f µs", part.name, part.ns/1000))
		}
	}
	return fmt.Sprintf("critical path of %s: %s", plural.Count(p.Ops, "op", "ops"), strings.Join(words, ", "))
}

func newScheduleSimulate(s cli.Streams) *cobra.Command {
	var (
		f                            shapeFlags
		size, topology, sharing      string
		model                        string
		latency, bandwidth, reduceBW float64
		netLatency, netBandwidth     float64
		engines, netEngines          int
		asJSON                       bool
		svg                          string
	)
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
		RunE: func(c *cobra.Command, args []string) error {
			p, plan, err := f.program(c, s, args)
			if err != nil {
				return err
			}
			vector, err := bench.ParseSize(size)
			if err != nil {
				return cli.UsageError("--bytes: %w", err)
			}
			for _, flag := range []struct {
				name string
				ok   bool
				want string
			}{
				{"bytes", vector > 0, "a size above 0"},
				{"bandwidth", bandwidth > 0 && !math.IsInf(bandwidth, 1), "a finite number above 0"},
				{"reduce-bandwidth", reduceBW >= 0 && !math.IsInf(reduceBW, 1), "a finite number of at least 0"},
				{"latency", latency >= 0 && latency <= 1e12, "a number from 0 to 1e12"},
				{"engines", engines >= 0, "a number of at least 0"},
				{"network-latency", netLatency >= 0 && netLatency <= 1e12, "a number from 0 to 1e12"},
				{"network-bandwidth", netBandwidth > 0 && !math.IsInf(netBandwidth, 1), "a finite number above 0"},
				{"network-engines", netEngines >= 0, "a number of at least 0"},
			} {
				if strings.HasPrefix(flag.name, "network-") && topology != "hosts" && c.Flags().Changed(flag.name) {
					return cli.UsageError("--%s is for --topology hosts: no other has a network", flag.name)
				}
				if !flag.ok {
					return cli.UsageError("--%s %s: want %s", flag.name, c.Flag(flag.name).Value, flag.want)
				}
			}
			t, err := simulate.NewTopology(topology, f.Ranks, f.Width)
			if err != nil {
				return cli.UsageError("--%w", err)
			}
			constants := simulate.Model{Sharing: sharing, Engines: engines, Latency: latency, PerByte: 1 / bandwidth}
			if reduceBW > 0 {
				constants.ReduceByte = 1 / reduceBW
			}
			if topology == "hosts" {
				constants.NetworkLatency, constants.NetworkByte, constants.NetworkEngines = netLatency, 1/netBandwidth, netEngines
			}
			if model != "" {
				if constants, err = modelOf(c, model); err != nil {
					return cli.UsageError("--model: %w", err)
				}
			}
			m, err := constants.Machine(t)
			if err != nil {
				return cli.UsageError("--model %s: %w", model, err)
			}
			if _, err := verified(c.Context(), p, plan); err != nil {
				return err
			}
			r, err := atOnce(c.Context(), func() (*simulate.Timeline, error) { return simulate.Trace(c.Context(), p, m, vector, 1) })
			if errors.Is(err, errInterrupted) {
				return err
			}
			if err != nil {
				return cli.UsageError("%w", err)
			}
			out := simulated{
				Origin: "simulated", Collective: string(p.Collective), Schedule: p.Name, Ranks: p.Ranks,
				Topology: t.Name, Sharing: string(m.Sharing), Model: constants.Constants(), Digest: constants.SHA256(), Bytes: vector, Messages: r.Messages, Makespan: r.Makespan.Nanoseconds(),
				Path: criticalPathOf(r.CriticalPath(), m.Table != nil),
			}
			if plan == nil {
				out.Width, out.Segments = f.used(args)
			}
			if simulate.HasRows(topology) {
				out.Width = f.WithDefaults().Width
			}
			summary := fmt.Sprintf("simulated: %s %s of %d bytes, %s%s on a %s (%s): %.3f µs",
				p.Name, p.Collective, vector, plural.Count(p.Ranks, "rank", "ranks"), out.shape(), t.Name, m.Sharing, out.Makespan/1000)
			text, err := out.machine()
			if err != nil {
				return err
			}
			if svg != "" {
				note := text
				if model != "" { // whose origin can be longer than a line of a drawing
					note = fmt.Sprintf("model: %s, SHA-256 of its figures %.12s…", filepath.Base(model), out.Digest)
				}
				if err := drawn(svg, r, summary, note, "time in µs", simulate.Microsecond); err != nil {
					return err
				}
			}
			if asJSON {
				return json.NewEncoder(s.Out).Encode(out)
			}
			fmt.Fprintf(s.Out, "%s, %s\n%s\n", summary, plural.Count(r.Messages, "message", "messages"), text)
			if out.Path.Ops > 0 {
				fmt.Fprintln(s.Out, out.Path)
			}
			return nil
		},
	}
	fs := cmd.Flags()
	f.add(fs)
	fs.StringVar(&size, "bytes", "1M", "take a whole vector of `SIZE` bytes; suffixes K, M, G")
	fs.StringVar(&topology, "topology", "full", "connect the ranks as `NAME`: full, switch, ring, torus, mesh or hosts")
	fs.StringVar(&sharing, "sharing", string(simulate.Unloaded), "let messages share links as `MODEL` says: unloaded, fifo or fair")
	fs.Float64Var(&latency, "latency", 1000, "let each link take `NS` nanoseconds")
	fs.Float64Var(&bandwidth, "bandwidth", 50, "let each link carry `GBPS` times 10⁹ bytes per second")
	fs.Float64Var(&reduceBW, "reduce-bandwidth", 0, "let a rank add `GBPS` times 10⁹ bytes per second; 0: no time")
	fs.IntVar(&engines, "engines", 1, "let a rank send `N` messages at the same time; 0: any number")
	fs.Float64Var(&netLatency, "network-latency", 2500, "let each of the two links between a rank and one of another host take `NS` nanoseconds")
	fs.Float64Var(&netBandwidth, "network-bandwidth", 50, "let the network adapter of a rank carry `GBPS` times 10⁹ bytes per second each way")
	fs.IntVar(&netEngines, "network-engines", 1, "let a rank send `N` messages to other hosts at the same time; 0: any number")
	fs.StringVar(&model, "model", "", "take sharing, engines and costs from `FILE`")
	fs.BoolVar(&asJSON, "json", false, "write JSON")
	fs.StringVar(&svg, "svg", "", "draw the timeline in `FILE`")
	return cmd
}

// shape says what the width and the segments are, where they count.
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
