package planfile

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/schedule"
)

// few and many are the numbers of ranks of the fast tests, and the numbers that the full tests add.
var few, many = []int{1, 2, 3, 4}, []int{6, 8, 12, 16}

// eachProgram calls f with programs of every schedule.
func eachProgram(t *testing.T, ranks []int, f func(t *testing.T, p *schedule.Program)) {
	for _, a := range schedule.Algorithms() {
		t.Run(string(a.Collective)+"/"+a.Name, func(t *testing.T) {
			tried := 0
			for _, n := range ranks {
				for _, width := range []int{2, n} {
					p, err := a.Generate(schedule.Shape{Ranks: n, Width: width, Segments: 2})
					if err == nil {
						f(t, p)
						tried++
					}
				}
			}
			require.NotZero(t, tried)
		})
	}
}

func written(t testing.TB, p *schedule.Program, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, p, format))
	return b.Bytes()
}

// TestRoundTripMSCCL writes every schedule as a plan of MSCCL, which verifies under MSCCL's
// rules and is the same when it is written again.
func TestRoundTripMSCCL(t *testing.T) { roundTripMSCCL(t, few) }

func TestRoundTripMSCCLOfManyRanks(t *testing.T) {
	need.Full(t)
	roundTripMSCCL(t, many)
}

func roundTripMSCCL(t *testing.T, ranks []int) {
	eachProgram(t, ranks, func(t *testing.T, p *schedule.Program) {
		text := written(t, p, "msccl")
		plan, err := Read("plan.xml", text)
		require.NoError(t, err)
		require.Empty(t, plan.Notes)
		report := verified(t, plan.Program)
		require.NoError(t, report.Err(), "%d ranks", p.Ranks)
		require.Equal(t, verified(t, p).Uniform, report.Uniform)
		want, err := ForMSCCL(p)
		require.NoError(t, err)
		require.Equal(t, want, plan.Program)
		require.Equal(t, string(text), string(written(t, plan.Program, "msccl")))
		bytes, _ := p.SentBytes(1<<20, 1)
		again, _ := plan.Program.SentBytes(1<<20, 1)
		require.Equal(t, bytes, again)
	})
}

// TestRoundTripMSCCLPP does the same with MSCCL++, which allows fewer ops.
func TestRoundTripMSCCLPP(t *testing.T) {
	eachProgram(t, few, func(t *testing.T, p *schedule.Program) {
		text := written(t, p, MSCCLPP)
		plan, err := Read("plan.json", text)
		require.NoError(t, err)
		report := verified(t, plan.Program)
		require.NoError(t, report.Err(), "%d ranks", p.Ranks)
		require.Equal(t, verified(t, p).Uniform, report.Uniform)
		want, err := ForMSCCLPP(p)
		require.NoError(t, err)
		require.Equal(t, want, plan.Program)
		require.Equal(t, string(text), string(written(t, plan.Program, MSCCLPP)))
		bytes, _ := p.SentBytes(1<<20, 1)
		again, _ := plan.Program.SentBytes(1<<20, 1)
		require.Equal(t, bytes, again)
	})
}

func program(t testing.TB, name string, c schedule.Collective, ranks int) *schedule.Program {
	t.Helper()
	a, err := schedule.Find(name, c)
	require.NoError(t, err)
	p, err := a.Generate(schedule.Shape{Ranks: ranks, Width: ranks, Segments: 2})
	require.NoError(t, err)
	return p
}

// TestCut reads every beginning of a plan: each is an error with a place in the file.
func TestCut(t *testing.T) {
	need.Full(t)
	for _, format := range formats {
		text := written(t, program(t, "ring", schedule.AllReduce, 2), format)
		whole := len(bytes.TrimSpace(text))
		for n := range whole {
			_, err := Read("plan", text[:n])
			require.Error(t, err, "%d bytes of %d", n, whole)
			require.Regexp(t, `^plan:[1-9]\d*:[1-9]\d*: \S`, err.Error())
			require.NotContains(t, err.Error(), "\n")
		}
	}
}

// TestMistakes changes a plan and expects an error that says where and what.
func TestMistakes(t *testing.T) {
	text := string(written(t, program(t, "direct", schedule.AllReduce, 3), "msccl"))
	for _, tt := range []struct{ old, new, want string }{
		{`coll="allreduce"`, `coll="broadcast"`, `plan.xml:1:1: <algo> coll="broadcast", must be allgather, allreduce, alltoall, reducescatter or reduce_scatter`},
		{`coll="allreduce"`, ``, `plan.xml:1:1: <algo> has no attribute coll`},
		{`ngpus="3"`, `ngpus="4"`, `plan.xml:1:1: ngpus="4", but there are 3 elements <gpu>`},
		{`ngpus="3"`, `ngpus="3000000"`, `plan.xml:1:1: <algo> ngpus="3000000", must be a number from 1 to 2048`},
		{`minBytes="0" maxBytes="`, `minBytes="100" maxBytes="10" nothing="`, `plan.xml:1:1: <algo> minBytes="100" is above maxBytes="10": the plan would never be used`},
		{`inplace="1" outofplace="0"`, `inplace="0" outofplace="0"`, `plan.xml:1:1: <algo> has inplace="0" and outofplace="0": the plan would never be used`},
		{`coll="allreduce"`, `coll="allgather" coll="allreduce"`, `plan.xml:1:1: <algo> has a duplicate attribute coll`},
		{`proto="Simple" `, ``, `plan.xml:1:1: <algo> has no attribute proto`},
		{`proto="Simple"`, `proto="simple"`, `plan.xml:1:1: <algo> proto="simple", must be one of Simple, LL, LL128`},
		{`nchannels="1"`, `nchannels="x"`, `plan.xml:1:1: <algo> nchannels="x", must be a number from 1 to 256`},
		{`maxBytes="1099511627776"`, `maxBytes="1T"`, `plan.xml:1:1: <algo> maxBytes="1T", must be a number from 0 to 9223372036854775807`},
		{`chan="0"`, `chan="1"`, `plan.xml:3:5: <tb> chan="1", must be less than nchannels="1"`},
		{`<step s="1"`, `<step s="256"`, `plan.xml:5:7: <step> s="256", must be a number from 0 to 255`},
		{`<gpu id="1"`, `<gpu id="0"`, `<gpu> id="0" is a duplicate`},
		{`i_chunks="3"`, `i_chunks="4"`, `plan.xml:2:3: <gpu> i_chunks="4", must be 3 in an all_reduce of 3 chunks`},
		{`<tb id="1"`, `<tb id="2"`, `<tb> id="2", must be 1: thread blocks are numbered in order`},
		{`<tb id="0" send="1"`, `<tb id="0" send="0"`, `plan.xml:3:5: <tb> of gpu 0 sends to or receives from itself`},
		{`<tb id="0" send="1"`, `<tb id="0" send="-1"`, `plan.xml:4:7: <step> type="s" in a thread block with send="-1"`},
		{`<step s="1"`, `<step s="2"`, `plan.xml:5:7: <step> s="2", must be 1: steps are numbered in order`},
		{`type="re"`, `type="er"`, `<step> type="er", must be s, r, cpy, re, rcs, rrc, rrcs, rrs or nop`},
		{`srcoff="1"`, `srcoff="3"`, `plan.xml:4:7: <step> uses chunks 3 to 3 of buffer o, which has 3`},
		{`hasdep="1"`, `hasdep="0"`, `which has hasdep="0" and does not signal its end`},
		{`<step s="0" type="s"`, `<stop s="0" type="s"`, `plan.xml:5:7: <step> s="1", must be 0: steps are numbered in order`},
		{`<algo`, `<?xml version="1.0" encoding="plain"?><algo`, `encoding "plain", must be UTF-8, US-ASCII, ISO-8859-1, ISO-8859-15 or Windows-1252`},
		{`</algo>`, ``, `the file ends before the plan does`},
		{"</algo>", "</algo>\n <!-- one more -->\n<algo/>", "plan.xml:52:1: text after the plan"},
	} {
		changed := strings.Replace(text, tt.old, tt.new, 1)
		require.NotEqual(t, text, changed, tt.old)
		_, err := Read("plan.xml", []byte(changed))
		require.ErrorContains(t, err, tt.want)
		require.Regexp(t, `^plan.xml:\d+:\d+: `, err.Error())
	}
	xmlText := text
	_, err := Read("plan.xml", []byte("\ufeff"+text+"<!-- end -->\n"))
	require.NoError(t, err)
	_, err = Read("plan", []byte("name: ring\n"))
	require.EqualError(t, err, "plan:1:1: the file is neither XML of MSCCL nor JSON of MSCCL++")
	_, err = Read("plan", []byte("\n"))
	require.EqualError(t, err, "plan:1:1: the file is empty")

	text = string(written(t, program(t, "double_tree", schedule.AllReduce, 3), MSCCLPP))
	for _, tt := range []struct{ old, new, want string }{
		{`"allreduce"`, `"broadcast"`, `plan.json:3:17: collective "broadcast", must be allgather, allreduce, alltoall or reducescatter`},
		{`"inplace": true`, `"inplace": 1`, `plan.json:5:14: inplace 1 must be true or false`},
		{`"collective": "allreduce",`, `"collective": "allgather", "collective": "allreduce",`, `plan.json:3:30: field "collective" is a duplicate`},
		{`"name": "double_tree",`, ``, `plan.json:1:1: has no field "name"`},
		{`"input_chunks": 4`, `"input_chunks": 3`, `plan.json:10:23: 3 chunks, must be 4 in an all_reduce of 4`},
		{`"id": 1`, `"id": 2`, `id 2 must be 1`},
		{`"name": "signal"`, `"name": "shout"`, `op "shout" is not supported, must be one of put, pws, pwsf, get, signal, wait, `},
		{`"channel_type": "memory"`, `"channel_type": "radio"`, `channel type "radio" is unknown, must be memory, port or switch`},
		{`"size": 1`, `"size": 9`, ` of buffer `},
		{`"size": 1`, `"size": 1e9`, `size 1e9 must be a number from 1 to 16777216`},
		{`"name": "sem_release"`, `"name": "nop"`, `acquires semaphore 0 more often than it is released`},
		{`"reduce_op": "sum"`, `"reduce_op": "max"`, `reduction "max" is not supported, must be sum`},
		{`"gpus": [`, `"gpus": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[`, `objects and arrays are nested more than 32 deep`},
		{`"protocol"`, `protocol`, `plan.json:4:3: invalid character 'p'`},
		{`"protocol": "Simple"`, `"protocol": "LL129"`, `protocol "LL129" must be one of Simple, LL`},
		{`"min_message_size": 0`, `"min_message_size": -4`, `min_message_size -4 must be a number from 0 to 18446744073709551615`},
		{"\"min_message_size\": 0,\n  \"max_message_size\": 18446744073709551615", `"max_message_size": 10, "min_message_size": 100`, `min_message_size 100 must be at most max_message_size, which is 10: the plan would never be used`},
		{`"buffer_alignment": 16`, `"buffer_alignment": 0`, `buffer_alignment 0 must be a number from 1 to 2147483647`},
		{`"gpus": [`, `"gpus": {}, "g": [`, `gpus must be an array`},
		{`"connected_to": [`, `"connected_to": [7,`, `connected_to 7 must be a number from 0 to 2`},
	} {
		changed := strings.Replace(text, tt.old, tt.new, 1)
		require.NotEqual(t, text, changed, tt.old)
		_, err := Read("plan.json", []byte(changed))
		require.ErrorContains(t, err, tt.want)
		require.Regexp(t, `^plan.json:\d+:\d+: `, err.Error())
	}

	plan, err := Read("plan.xml", []byte(strings.Replace(xmlText, `minBytes="0" `, "", 1)))
	require.NoError(t, err)
	require.Equal(t, []string{"plan.xml:1:1: <algo> has no attribute minBytes: newer versions of MSCCL ignore the plan without a message"}, plan.Notes)
}

// TestPlansAsMSCCLReadsThem: a limit of 0 bytes is none, elements with other names are ignored, and
// the encoding is the declared one.
func TestPlansAsMSCCLReadsThem(t *testing.T) {
	p := program(t, "ring", schedule.AllReduce, 2)
	p.Name = "café"
	text := string(written(t, p, MSCCL))
	for _, tt := range []struct{ name, old, new, note string }{
		{"no limit", `minBytes="0" maxBytes="1099511627776"`, `minBytes="393216" maxBytes="0"`, ""},
		{"element of algo", `<gpu id="0"`, `<about><gpu id="9"/></about><gpu id="0"`, "plan.xml:2:3: MSCCL ignores the element <about>"},
		{"element of step", `hasdep="0"/>`, `hasdep="0"><why/></step>`, "MSCCL ignores the element <why>"},
		{"ascii", "café", "caf&#233;", ""},
		{"latin", "café", "caf\xe9", ""},
	} {
		encoding := map[string]string{"ascii": "<?xml version='1.0' encoding='us-ascii'?>\n", "latin": "<?xml version='1.0' encoding='ISO-8859-1'?>\n"}[tt.name]
		changed := strings.Replace(text, tt.old, tt.new, 1)
		require.NotEqual(t, text, changed, tt.name)
		plan, err := Read("plan.xml", []byte(encoding+changed))
		require.NoError(t, err, tt.name)
		require.Equal(t, p.Name, plan.Program.Name, tt.name)
		require.Equal(t, tt.note != "", len(plan.Notes) == 1, tt.name)
		if tt.note != "" {
			require.Contains(t, plan.Notes[0], tt.note)
		}
		require.NoError(t, verified(t, plan.Program).Err(), tt.name)
	}
}

// TestAllToAll reads a plan in which each rank sends chunk p of its input to rank p. A rank that
// sends another chunk, or stores it elsewhere, is found.
func TestAllToAll(t *testing.T) {
	const ranks = 3
	var b strings.Builder
	fmt.Fprintf(&b, `<algo name="direct" proto="Simple" nchannels="1" nchunksperloop="%d" ngpus="%[1]d" coll="alltoall" inplace="0" outofplace="1" minBytes="0" maxBytes="0">`, ranks)
	for r := range ranks {
		fmt.Fprintf(&b, "\n<gpu id=\"%d\" i_chunks=\"%d\" o_chunks=\"%[2]d\" s_chunks=\"0\">", r, ranks)
		step := func(s int, kind string, from, to int) {
			fmt.Fprintf(&b, `<step s="%d" type="%s" srcbuf="i" srcoff="%d" dstbuf="o" dstoff="%d" cnt="1" depid="-1" deps="-1" hasdep="0"/>`, s, kind, from, to)
		}
		for i := range ranks - 1 {
			p := (r + 1 + i) % ranks
			fmt.Fprintf(&b, "\n<tb id=\"%d\" send=\"%d\" recv=\"%[2]d\" chan=\"0\">", i, p)
			step(0, "s", p, 0)
			step(1, "r", 0, p)
			if i == 0 {
				step(2, "cpy", r, r)
			}
			b.WriteString("</tb>")
		}
		b.WriteString("</gpu>")
	}
	b.WriteString("</algo>")
	first, rest, _ := strings.Cut(b.String(), "</gpu>")
	for _, tt := range []struct {
		change []string // of the first gpu
		want   string
	}{
		{nil, ""},
		{[]string{`srcoff="1"`, `srcoff="2"`}, "rank 1, chunk 0: holds the data of chunk 2"},
		{[]string{`dstoff="1"`, `dstoff="2"`, `dstoff="2"`, `dstoff="1"`}, "rank 0, chunk 1: holds chunk 0 of another rank, must hold that of rank 1"},
	} {
		plan, err := Read("plan.xml", []byte(strings.NewReplacer(tt.change...).Replace(first)+"</gpu>"+rest))
		require.NoError(t, err)
		require.Equal(t, schedule.AllToAll, plan.Program.Collective)
		_, err = plan.Verify(t.Context())
		if tt.want != "" {
			require.ErrorContains(t, err, tt.want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, plan.Program.Ops, again(t, plan.Program).Ops)
	}
}

// again returns a program after it was written and read.
func again(t *testing.T, p *schedule.Program) *schedule.Program {
	t.Helper()
	plan, err := Read("plan.xml", written(t, p, MSCCL))
	require.NoError(t, err)
	return plan.Program
}

// TestNamesOfReduceScatter: a plan has the name that newer versions of MSCCL know; that of the
// first is read, too.
func TestNamesOfReduceScatter(t *testing.T) {
	text := string(written(t, program(t, "ring", schedule.ReduceScatter, 2), MSCCL))
	require.Contains(t, text, ` coll="reducescatter" `)
	old, err := Read("plan.xml", []byte(strings.Replace(text, "reducescatter", "reduce_scatter", 1)))
	require.NoError(t, err)
	require.Equal(t, []string{`plan.xml:1:1: <algo> coll="reduce_scatter": newer versions of MSCCL accept only reducescatter and refuse the plan`}, old.Notes)
	plan, err := Read("plan.xml", []byte(text))
	require.NoError(t, err)
	require.Equal(t, plan.Program, old.Program)
}

// pair is a plan of two ranks, out of place, whose steps are those that the schedules known
// by name do not have.
const pair = `<algo name="pair" proto="LL" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="0" outofplace="1" minBytes="0" maxBytes="1024">
  <gpu id="0" i_chunks="2" o_chunks="2" s_chunks="0">
    <tb id="0" send="1" recv="1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="rrcs" srcbuf="i" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="2" type="r" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="2" s_chunks="1">
    <tb id="0" send="0" recv="0" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="rrs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="2" type="r" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="1"/>
    </tb>
    <tb id="1" send="-1" recv="-1" chan="0">
      <step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="i" dstoff="-1" cnt="0" depid="0" deps="2" hasdep="0"/>
      <step s="1" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
`

// TestFindings verifies a plan of another's: its findings have the place of the step.
func TestFindings(t *testing.T) {
	plan, err := Read("pair.xml", []byte(pair))
	require.NoError(t, err)
	report := verified(t, plan.Program)
	require.Len(t, report.Findings, 1) // chunk 0 of rank 1 is sent on and not kept
	wording.Has(t, plan.Find(report.Findings[0]), "pair.xml: lost: rank 1, chunk 0: ")

	mended := strings.NewReplacer(`"rrs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0"`, `"rrcs" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0"`,
		`<step s="1" type="cpy" srcbuf="i" srcoff="0" dstbuf="o"`, `<step s="1" type="cpy" srcbuf="o" srcoff="0" dstbuf="s"`).Replace(pair)
	plan, err = Read("pair.xml", []byte(mended))
	require.NoError(t, err)
	require.NoError(t, verified(t, plan.Program).Err())
	again, err := Read("again.xml", written(t, plan.Program, "msccl"))
	require.NoError(t, err)
	require.Equal(t, plan.Program, again.Program)

	// Without the wait, the copy is beside the receive.
	plan, err = Read("pair.xml", []byte(strings.Replace(mended, `depid="0" deps="2"`, `depid="-1" deps="-1"`, 1)))
	require.NoError(t, err)
	report = verified(t, plan.Program)
	race := slices.IndexFunc(report.Findings, func(f schedule.Finding) bool { return f.Class == schedule.Race })
	require.GreaterOrEqual(t, race, 0)
	require.Regexp(t, `^pair.xml:1[0-9]:7: race: rank 1, op \d, chunk 0: .* op \d \(\w+\)`, plan.Find(report.Findings[race]))

	// Two thread blocks send to a rank over a channel.
	plan, err = Read("pair.xml", []byte(strings.NewReplacer(`<tb id="1" send="-1"`, `<tb id="1" send="0"`, `type="cpy"`, `type="s"`).Replace(mended)))
	require.NoError(t, err)
	wording.Has(t, verified(t, plan.Program).Lines(plan.Find).Error(), "pair.xml:17:7: form: rank 1, op 5: … channel 0 with rank 0 … stream 0")

	// Rank 0 sends nothing that rank 1 could add to.
	plan, err = Read("pair.xml", []byte(strings.Replace(mended, `      <step s="2" type="r" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>`+"\n", "", 1)))
	require.NoError(t, err)
	report = verified(t, plan.Program)
	wording.Has(t, plan.Find(report.Findings[0]), "pair.xml:11:7: unmatched: rank 1, op 3: … rank 0")

	// Two blocks that wait for each other.
	_, err = Read("pair.xml", []byte(strings.Replace(mended, `dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="1"/>`, `dstoff="1" cnt="1" depid="1" deps="1" hasdep="1"/>`, 1)))
	require.ErrorContains(t, err, `pair.xml:13:7: <step> waits for step 1 of thread block 1, which has hasdep="0"`)
	_, err = Read("pair.xml", []byte(strings.NewReplacer(`dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="1"/>`, `dstoff="1" cnt="1" depid="1" deps="1" hasdep="1"/>`,
		`dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>`, `dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/>`).Replace(mended)))
	require.EqualError(t, err, "pair.xml:13:7: <step> waits for steps of gpu 1 that wait for it")
}

// TestBothPlacements: a plan for both placements is verified in both.
func TestBothPlacements(t *testing.T) {
	head := strings.Replace(pair, `inplace="0"`, `inplace="1"`, 1)
	plan, err := Read("pair.xml", []byte(head))
	require.NoError(t, err)
	require.Zero(t, plan.Program.Input)
	require.Equal(t, 2, plan.OutOfPlace.Program.Input)
	_, err = plan.Verify(t.Context())
	require.ErrorContains(t, err, "pair.xml: in place: lost: rank 1, chunk 0: ")
	require.ErrorContains(t, err, "\npair.xml: out of place: lost: rank 1, chunk 0: ")

	// In place, the output has the input of the rank. Out of place it has nothing.
	text := string(written(t, program(t, "ring", schedule.AllReduce, 2), MSCCL))
	plan, err = Read("ring.xml", []byte(text))
	require.NoError(t, err)
	require.Nil(t, plan.OutOfPlace)
	text = strings.Replace(text, `outofplace="0"`, `outofplace="1"`, 1)
	plan, err = Read("ring.xml", []byte(text))
	require.NoError(t, err)
	require.NoError(t, verified(t, plan.Program).Err())
	_, err = plan.Verify(t.Context())
	require.ErrorContains(t, err, "ring.xml:4:7: out of place: undefined: rank 0, op 0, chunk 1: ")
	require.NotContains(t, err.Error(), "in place: ")
}

// TestLimits: what a runtime does not run is read with a note.
func TestLimits(t *testing.T) {
	text := string(written(t, program(t, "direct", schedule.AllGather, 2), MSCCL))
	from, to := strings.Index(text, "    <tb"), strings.Index(text, "  </gpu>")
	var blocks strings.Builder
	for b := range xmlBlocks + 1 {
		if b > 0 {
			fmt.Fprintf(&blocks, "    <tb id=\"%d\" send=\"-1\" recv=\"-1\" chan=\"0\"></tb>\n", b)
		} else {
			blocks.WriteString(text[from:to])
		}
	}
	plan, err := Read("plan.xml", []byte(text[:from]+blocks.String()+text[to:]))
	require.NoError(t, err)
	require.Equal(t, []string{"plan.xml:38:5: <tb> chan=\"0\": the channel has more than 32 thread blocks on gpu 0: MSCCL refuses the plan"}, plan.Notes)

	text = string(written(t, program(t, "direct", schedule.AllGather, 2), MSCCLPP))
	plan, err = Read("plan.json", []byte(strings.Replace(text, `"ops": [`, `"ops": [`+strings.Repeat(`{"name": "nop"}, `, jsonOps), 1)))
	require.NoError(t, err)
	require.Len(t, plan.Notes, 1)
	require.Regexp(t, `^plan.json:\d+:9: thread block of gpu 0 has \d+ ops: MSCCL\+\+ runs at most 64$`, plan.Notes[0])
	used := regexp.MustCompile(`"channel_type": "memory",\s+"channel_ids": \[`).FindString(text) // of the first thread block
	plan, err = Read("plan.json", []byte(strings.Replace(text, used, used+strings.Repeat("0, ", jsonChannels), 1)))
	require.NoError(t, err)
	require.Len(t, plan.Notes, 1)
	require.Regexp(t, `^plan.json:\d+:9: thread block of gpu 0 has \d+ channels: MSCCL\+\+ runs at most 16$`, plan.Notes[0])
}

// TestStepsWithoutOps: steps that only pass on what they wait for keep one op for each thread
// block, not all that were passed to them.
func TestStepsWithoutOps(t *testing.T) {
	const each, steps = 4, 200
	blocks := make([]threadBlock, 2*each)
	for b := range blocks {
		for s := range steps {
			next := step{ops: []schedule.Op{{Kind: schedule.Copy, Dst: 1, Count: 1}}}
			if b >= each {
				next = step{after: []stepOf{{b - each, s}}}
				if b > each && s == 0 {
					next.after = append(next.after, stepOf{b - 1, steps - 1})
				}
			}
			blocks[b].steps = append(blocks[b].steps, next)
		}
	}
	blocks[2*each-1].steps = append(blocks[2*each-1].steps, step{ops: []schedule.Op{{Kind: schedule.Copy, Dst: 2, Count: 1}}})
	p := &schedule.Program{Ranks: 1, Chunks: 3, Collective: schedule.AllReduce, Ops: make([][]schedule.Op, 1)}
	_, stuck := assemble(p, 0, blocks)
	require.Nil(t, stuck)
	last := &p.Ops[0][each*steps]
	require.Equal(t, schedule.Slot(2), last.Dst)
	require.Equal(t, []int32{steps - 1, 2*steps - 1, 3*steps - 1, 4*steps - 1}, p.Deps(last))
}

// TestOneSided verifies plans of MSCCL++ that lack a signal: what they do is not ordered, or
// never happens.
func TestOneSided(t *testing.T) {
	p, err := ForMSCCLPP(program(t, "ring", schedule.AllReduce, 3))
	require.NoError(t, err)
	planted := map[schedule.Class]int{}
	for i, o := range p.Ops[1] {
		if o.Kind == schedule.Put {
			continue
		}
		q := *p
		q.Ops = slices.Clone(p.Ops)
		q.Ops[1] = slices.Delete(slices.Clone(p.Ops[1]), i, i+1)
		if o.Kind == schedule.Wait { // and its signal
			nth := 0
			for _, b := range p.Ops[1][:i] {
				if b.Kind == schedule.Wait && b.Peer == o.Peer && b.Channel == o.Channel {
					nth++
				}
			}
			q.Ops[o.Peer] = slices.Clone(p.Ops[o.Peer])
			for k, s := range q.Ops[o.Peer] {
				if s.Kind == schedule.Signal && s.Peer == 1 && s.Channel == o.Channel {
					if nth == 0 {
						q.Ops[o.Peer] = slices.Delete(q.Ops[o.Peer], k, k+1)
						break
					}
					nth--
				}
			}
		}
		report := verified(t, &q)
		if o.Kind == schedule.Wait && len(report.Findings) == 0 {
			// The memory was free before the first messages, and by the steps that come
			// before the last ones.
			planted["needless"]++
			continue
		}
		require.NotEmpty(t, report.Findings, "without op %d (%s)", i, o.String())
		planted[report.Findings[0].Class]++
	}
	require.Positive(t, planted[schedule.Race])
	require.Positive(t, planted[schedule.Unmatched])
	require.Positive(t, planted[schedule.Lost])
	t.Log(planted)
}

// TestMissingDependencies: the plans of most schedules have sends of what other thread blocks have
// received. Without the dependency, each of them is a race.
func TestMissingDependencies(t *testing.T) {
	planted, by := 0, map[schedule.Collective]int{}
	received := func(o *schedule.Op) bool { return o.Kind == schedule.Recv || o.Kind == schedule.RecvReduce }
	eachProgram(t, []int{1, 2, 3, 4, 6, 8}, func(t *testing.T, p *schedule.Program) {
		p, err := ForMSCCL(p)
		require.NoError(t, err)
		for r, ops := range p.Ops {
			for i := range ops {
				o := &ops[i]
				if o.Kind != schedule.Send || !slices.ContainsFunc(p.Deps(o), func(d int32) bool {
					return ops[d].Stream != o.Stream && received(&ops[d]) && ops[d].Dst == o.Src
				}) {
					continue
				}
				q := *p
				q.Ops = slices.Clone(p.Ops)
				q.Ops[r] = nil
				for k := range ops {
					var deps []int
					for _, d := range p.Deps(&ops[k]) {
						if k != i {
							deps = append(deps, int(d))
						}
					}
					q.Append(r, ops[k], deps...)
				}
				found := verified(t, &q).Findings
				require.True(t, slices.ContainsFunc(found, func(f schedule.Finding) bool { return f.Class == schedule.Race }), "rank %d without the dependencies of op %d: %v", r, i, found)
				planted++
				by[p.Collective]++
			}
		}
	})
	t.Log(planted, by)
	require.Greater(t, planted, 300)
	require.Len(t, by, 3)
}

// twoGPUs is an all_reduce of MSCCL++ in place, of two chunks on two gpus that are connected by a
// channel of a kind. Both run the ops, in which MINE and YOURS are the chunks of the gpu and the other.
func twoGPUs(kind, ops string) []byte {
	gpu := func(r int) string {
		return strings.NewReplacer("MINE", fmt.Sprint(r), "YOURS", fmt.Sprint(1-r), "KIND", kind, "OPS", strings.NewReplacer("MINE", fmt.Sprint(r), "YOURS", fmt.Sprint(1-r), "KIND", kind).Replace(ops)).Replace(
			`{"id": MINE, "input_chunks": 2, "output_chunks": 2, "scratch_chunks": 1,
"channels": [{"channel_type": "KIND", "connected_to": [YOURS]}], "remote_buffers": [{"rank": YOURS, "type": "o"}, {"rank": YOURS, "type": "s"}],
"threadblocks": [{"id": 0, "channels": [{"channel_type": "KIND", "channel_ids": [0]}], "remote_buffer_refs": [{"access_channel_type": "KIND", "remote_buffer_ids": [0, 1]}],
"ops": [
OPS
]}]}`)
	}
	return []byte(`{"name": "two", "collective": "allreduce", "inplace": true, "gpus": [` + gpu(0) + ", " + gpu(1) + "]}")
}

const (
	ready = `{"name": "signal", "channel_type": "KIND", "channel_ids": [0]}, {"name": "wait", "channel_type": "KIND", "channel_ids": [0]},
`
	spanMine  = `{"type": "o", "index": MINE, "size": 1}`
	spanYours = `{"type": "o", "index": YOURS, "size": 1}`
)

// TestAsynchronousPuts: what a put over a port channel reads is in use until a flush, or until the
// other gpu has answered its signal.
func TestAsynchronousPuts(t *testing.T) {
	put := `{"name": "put", "channel_type": "KIND", "channel_ids": [0], "src_buff": [` + spanYours + `], "dst_buff": [{"buffer_id": 1, "index": 0, "size": 1}]},
{"name": "signal", "channel_type": "KIND", "channel_ids": [0]},
`
	back := `{"name": "wait", "channel_type": "KIND", "channel_ids": [0]},
{"name": "re", "src_buff": [` + spanMine + `, {"type": "s", "index": 0, "size": 1}], "dst_buff": [` + spanMine + `]},
` + ready
	last := `{"name": "put", "channel_type": "KIND", "channel_ids": [0], "src_buff": [` + spanMine + `], "dst_buff": [{"buffer_id": 0, "index": MINE, "size": 1}]},
` + strings.TrimSuffix(ready, ",\n")
	reuse := `{"name": "copy", "src_buff": [` + spanMine + `], "dst_buff": [` + spanYours + `]},
`
	flush := `{"name": "flush", "channel_type": "KIND", "channel_ids": [0]},
`
	pwsf := strings.NewReplacer(`"put"`, `"pwsf"`, `
{"name": "signal", "channel_type": "KIND", "channel_ids": [0]},`, "").Replace(put)
	for _, tt := range []struct {
		kind, ops string
		race      bool
	}{
		{"memory", put + reuse + back + last, false},
		{"memory", put + flush + reuse + back + last, false},
		{"port", put + reuse + back + last, true},
		{"port", put + flush + reuse + back + last, false},
		{"port", pwsf + reuse + back + last, false},
		{"port", put + back + reuse + ready + last, false}, // the other gpu signals after it has added
	} {
		plan, err := Read("two.json", twoGPUs(tt.kind, tt.ops))
		require.NoError(t, err)
		again, err := Read("again.json", written(t, plan.Program, MSCCLPP))
		require.NoError(t, err)
		require.Equal(t, plan.Program, again.Program)
		_, err = plan.Verify(t.Context())
		if !tt.race {
			require.NoError(t, err, "%s: %s", tt.kind, tt.ops)
			continue
		}
		wording.Has(t, err.Error(), "two.json:7:1: race: rank 0, op 2, chunk 1: … op 0 (put)")
	}
}

// TestGets: a gpu can read the memory of another, which has to tell that the data is there.
func TestGets(t *testing.T) {
	far := `{"buffer_id": 0, "index": MINE, "size": 1}`
	rres := `{"name": "rres", "channel_type": "KIND", "src_buff": [` + spanMine + `, ` + far + `], "dst_buff": [` + spanMine + `, ` + far + `]},
`
	last := strings.TrimSuffix(ready, ",\n")
	get := `{"name": "get", "channel_type": "KIND", "channel_ids": [0], "src_buff": [{"buffer_id": 0, "index": YOURS, "size": 1}], "dst_buff": [` + spanYours + `]}`
	rre := `{"name": "rre", "channel_type": "KIND", "src_buff": [` + spanMine + `, ` + far + `], "dst_buff": [` + spanMine + `]},
`
	for ops, want := range map[string]string{
		ready + rres + last:             "",
		ready + rre + ready + get:       "",
		ready + rre + get:               "race: rank ",
		rres + last:                     "",
		ready + rre + rre + ready + get: "doubled: rank ",
		ready + strings.Replace(rre, far, `{"buffer_id": 1, "index": 0, "size": 1}`, 1) + ready + get: "undefined: rank 0, op 2, scratch 0: ",
	} {
		plan, err := Read("two.json", twoGPUs("memory", ops))
		require.NoError(t, err)
		again, err := Read("again.json", written(t, plan.Program, MSCCLPP))
		require.NoError(t, err)
		require.Equal(t, plan.Program, again.Program)
		if _, err = plan.Verify(t.Context()); want == "" {
			require.NoError(t, err, ops)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	for ops, want := range map[string]string{
		ready + rres + last:       "two.json:6:1: rres over a port channel is not supported, must be a memory channel",
		ready + rre + ready + get: "two.json:6:1: rre over a port channel is not supported, must be a memory channel",
		get:                       "two.json:5:1: get over a port channel is not supported, must be a memory channel",
	} {
		_, err := Read("two.json", twoGPUs("port", ops))
		require.EqualError(t, err, want)
	}
	_, err := Read("two.json", twoGPUs("memory", strings.Replace(get, `"buffer_id": 0`, `"type": "o"`, 1)))
	require.EqualError(t, err, "two.json:5:1: get must read from other gpus and write to its own")
	_, err = Read("two.json", bytes.Replace(twoGPUs("memory", get), []byte(`"connected_to": [1]`), []byte(`"connected_to": []`), 1))
	require.EqualError(t, err, "two.json:3:84: channel_ids 0 must be left out: there are no memory channels of gpu 0")
	plan, err := Read("two.json", twoGPUs("memory", get))
	require.NoError(t, err)
	require.EqualError(t, Write(&bytes.Buffer{}, plan.Program, MSCCL), "program two has a get (op 0 of rank 0): plans of MSCCL support only sends, receives, copies and sums")
}

// TestBuffers: sends that nobody has received yet fill the buffer of their connection.
func TestBuffers(t *testing.T) {
	for ahead, want := range map[int]schedule.Class{8: "", 9: schedule.Deadlock} {
		p := &schedule.Program{Name: "ahead", Collective: schedule.AllGather, Ranks: 2, Chunks: 2 * ahead, Buffer: 8, Ops: make([][]schedule.Op, 2)}
		for r := range 2 { // all sends before all receives
			for k := range ahead {
				p.Append(r, schedule.Op{Kind: schedule.Send, Peer: int32(1 - r), Src: schedule.Slot(r*ahead + k), Count: 1})
			}
			for k := range ahead {
				p.Append(r, schedule.Op{Kind: schedule.Recv, Peer: int32(1 - r), Dst: schedule.Slot((1-r)*ahead + k), Count: 1})
			}
		}
		report := verified(t, p)
		if want == "" {
			require.NoError(t, report.Err())
			continue
		}
		require.Equal(t, want, report.Findings[0].Class)
		wording.Has(t, report.Err().Error(), "op 8 (send) of rank 0 … op 9 (recv) of rank 1 … op 8 (send) of rank 1 … op 9 (recv) of rank 0")
	}
}

func TestRefused(t *testing.T) {
	require.EqualError(t, Write(&bytes.Buffer{}, program(t, "direct", schedule.AllGather, 64), "msccl"),
		"program direct, rank 0: channel 0 needs more than the 32 thread blocks that MSCCL allows: use fewer ranks")
	require.EqualError(t, Write(&bytes.Buffer{}, program(t, "rabenseifner", schedule.AllReduce, 256), "msccl"),
		"program rabenseifner, rank 0: a step has 128 chunks, MSCCL allows 71: use fewer ranks")
	require.EqualError(t, Write(&bytes.Buffer{}, program(t, "ring", schedule.AllReduce, 8), "mscclpp"),
		"program ring, rank 0: thread block 0 has 119 ops, MSCCL++ allows 64: use fewer ranks or segments, or write a plan of MSCCL")
	require.EqualError(t, Write(&bytes.Buffer{}, program(t, "ring", schedule.AllGather, 2), "yaml"),
		`unknown format "yaml", must be one of [msccl mscclpp]`)
}

// FuzzRead reads and verifies what may be a plan.
func FuzzRead(f *testing.F) {
	for _, format := range formats {
		for _, name := range []string{"ring", "direct"} {
			f.Add(written(f, program(f, name, schedule.AllReduce, 3), format))
		}
	}
	f.Add([]byte(pair))
	f.Add(twoGPUs("memory", `{"name": "get", "channel_type": "KIND", "src_buff": [{"buffer_id": 1, "index": 0, "size": 1}], "dst_buff": [`+spanMine+`]}`))
	f.Add(twoGPUs("port", strings.TrimSuffix(ready, ",\n")))
	f.Add(packetPlan(3, oneShot))
	f.Add(packetPlan(2, twoShot))
	f.Add(switchPlan(split(reduced)))
	f.Fuzz(func(t *testing.T, data []byte) {
		plan, err := Read("plan", data)
		if err != nil {
			require.Regexp(t, `^plan:[1-9]\d*:[1-9]\d*: `, err.Error())
			return
		}
		p := plan.Program
		if p.Ranks*(p.Chunks+p.Scratch) > 1<<12 {
			return // takes long
		}
		for _, finding := range verified(t, p).Findings {
			require.Contains(t, plan.Find(finding), "plan:")
		}
	})
}

func verified(t testing.TB, p *schedule.Program) *schedule.Report {
	t.Helper()
	report, err := schedule.Verify(t.Context(), p)
	require.NoError(t, err)
	return report
}
