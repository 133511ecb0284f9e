package planfile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// jsonPlan is a plan of an all_reduce in place. Of each gpu, tail is the fields that follow its
// chunks, and blocks the ops of its thread blocks. Each thread block has all channels and buffers.
func jsonPlan(ranks, chunks, scratch int, protocol string, tail func(r int) string, refs string, blocks func(r int) []string) []byte {
	var gpus []string
	for r := range ranks {
		var tbs []string
		for b, ops := range blocks(r) {
			tbs = append(tbs, fmt.Sprintf("{\"id\": %d, %s, \"ops\": [\n%s\n]}", b, refs, ops))
		}
		gpus = append(gpus, fmt.Sprintf(`{"id": %d, "input_chunks": %d, "output_chunks": %d, "scratch_chunks": %d, %s, "threadblocks": [%s]}`,
			r, chunks, chunks, scratch, tail(r), strings.Join(tbs, ", ")))
	}
	return fmt.Appendf(nil, `{"name": "plan", "collective": "allreduce", "protocol": %q, "inplace": true, "use_double_scratch_buffer": true, "gpus": [%s]}`,
		protocol, strings.Join(gpus, ",\n"))
}

func peers(ranks, r int) (others []int) {
	for q := range ranks {
		if q != r {
			others = append(others, q)
		}
	}
	return others
}

// packetPlan is a plan whose gpus write packets into scratch memory of each other. Remote buffer i of a gpu is the scratch memory of its i-th peer.
func packetPlan(ranks int, blocks func(ranks, r int) []string) []byte {
	ids := make([]string, ranks-1)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	refs := `"channels": [{"channel_type": "memory", "channel_ids": [` + strings.Join(ids, ", ") + `]}], "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [` + strings.Join(ids, ", ") + `]}]`
	return jsonPlan(ranks, ranks, ranks*ranks, "LL", func(r int) string {
		var ends, remotes []string
		for _, q := range peers(ranks, r) {
			ends = append(ends, fmt.Sprint(q))
			remotes = append(remotes, fmt.Sprintf(`{"rank": %d, "type": "s"}`, q))
		}
		return `"channels": [{"channel_type": "memory", "connected_to": [` + strings.Join(ends, ", ") + `]}], "remote_buffers": [` + strings.Join(remotes, ", ") + `]`
	}, refs, func(r int) []string { return blocks(ranks, r) })
}

func local(buffer string, index, size int) string {
	return fmt.Sprintf(`{"type": %q, "index": %d, "size": %d}`, buffer, index, size)
}

func remoteChunk(id, index, size int) string {
	return fmt.Sprintf(`{"buffer_id": %d, "index": %d, "size": %d}`, id, index, size)
}

// moves is an op from sources to destinations.
func moves(name string, from, to []string) string {
	return fmt.Sprintf(`{"name": %q, "channel_type": "memory", "src_buff": [%s], "dst_buff": [%s]}`, name, strings.Join(from, ", "), strings.Join(to, ", "))
}

// oneShot has a thread block for each chunk, which writes it to all others and adds up theirs.
func oneShot(ranks, r int) []string {
	var blocks []string
	for k := range ranks {
		var to []string
		in := []string{local("i", k, 1)}
		for i, q := range peers(ranks, r) {
			to = append(to, remoteChunk(i, k*ranks+r, 1))
			in = append(in, local("s", k*ranks+q, 1))
		}
		blocks = append(blocks, moves("ppkt", slices.Repeat(in[:1], len(to)), to)+",\n"+moves("repkt", in, in[:1]))
	}
	return blocks
}

// twoShot is an all_reduce of two gpus, each of which adds up its chunk. A thread block of its own
// unpacks what comes back.
func twoShot(_, r int) []string {
	mine, yours := local("i", r, 1), local("i", 1-r, 1)
	return []string{
		moves("ppkt", []string{yours}, []string{remoteChunk(0, 0, 1)}) + ",\n" +
			moves("respkt", []string{mine, local("s", 0, 1)}, []string{mine, remoteChunk(0, 1, 1)}),
		moves("upkt", []string{local("s", 1, 1)}, []string{yours}),
	}
}

// keptShot is the same, with packets that a gpu keeps and sends on.
func keptShot(_, r int) []string {
	mine, yours := local("i", r, 1), local("i", 1-r, 1)
	return []string{
		moves("cpkt", []string{yours}, []string{local("s", 3, 1)}),
		moves("rppkt", []string{local("s", 3, 1)}, []string{remoteChunk(0, 0, 1)}),
		moves("recspkt", []string{mine, local("s", 0, 1)}, []string{mine, local("s", 2, 1), remoteChunk(0, 1, 1)}),
		moves("upkt", []string{local("s", 2, 1)}, []string{mine}) + ",\n" + moves("upkt", []string{local("s", 1, 1)}, []string{yours}),
	}
}

// readable reads a plan, which another reading of what it is written as equals.
func readable(t *testing.T, data []byte) *Plan {
	t.Helper()
	plan, err := Read("plan.json", data)
	require.NoError(t, err)
	again, err := Read("again.json", written(t, plan.Program, MSCCLPP))
	require.NoError(t, err)
	require.Equal(t, plan.Program.Ops, again.Program.Ops)
	return plan
}

// TestPackets: who reads packets waits for them, and adds them in the order of MSCCL++'s kernel.
func TestPackets(t *testing.T) {
	for name, data := range map[string][]byte{"kept": packetPlan(2, keptShot), "two": packetPlan(2, twoShot), "one": packetPlan(2, oneShot)} {
		plan := readable(t, data)
		require.Empty(t, plan.Notes)
		_, err := plan.Verify(t.Context())
		require.NoError(t, err, name)
	}
	// A port channel moves packets as they are.
	port := strings.NewReplacer(`"access_channel_type": "memory"`, `"access_channel_type": "port"`, `"channel_type": "memory"`, `"channel_type": "port"`)
	kept := func(name, via string) []byte {
		return packetPlan(2, func(ranks, r int) []string {
			yours := local("i", 1-r, 1)
			sends := func(from, to int) string {
				return strings.Replace(moves(name, []string{local("s", from, 1)}, []string{remoteChunk(0, to, 1)}), `"channel_type"`, via+`"channel_type"`, 1)
			}
			return []string{
				moves("cpkt", []string{yours}, []string{local("s", 3, 1)}) + ",\n" + sends(3, 0),
				moves("repkt", []string{local("i", r, 1), local("s", 0, 1)}, []string{local("i", r, 1)}) + ",\n" +
					moves("cpkt", []string{local("i", r, 1)}, []string{local("s", 2, 1)}) + ",\n" + sends(2, 1),
				moves("upkt", []string{local("s", 1, 1)}, []string{yours}),
			}
		})
	}
	for _, name := range []string{"ppkt", "rppkt"} {
		_, err := readable(t, []byte(port.Replace(string(kept(name, `"channel_ids": [0], `))))).Verify(t.Context())
		require.NoError(t, err)
		_, err = Read("plan.json", []byte(port.Replace(string(kept(name, `"channel_ids": [], `)))))
		require.ErrorContains(t, err, name+" needs a port channel to the gpu of each destination")
	}
	_, err := Read("plan.json", kept("ppkt", ""))
	require.ErrorContains(t, err, "data of ppkt in buffer s")
	_, err = Read("plan.json", []byte(strings.ReplaceAll(port.Replace(string(packetPlan(2, twoShot))), `"ppkt", `, `"ppkt", "channel_ids": [0], `)))
	require.ErrorContains(t, err, "ppkt over a port channel from buffer i, must be from buffer s: a port channel moves existing packets")
	plan := readable(t, packetPlan(3, oneShot))
	uniform, err := plan.Verify(t.Context())
	require.NoError(t, err)
	require.False(t, uniform)
	sums, err := schedule.Sums(t.Context(), plan.Program)
	require.NoError(t, err)
	for k, sum := range sums {
		require.Equal(t, fmt.Sprintf("chunk %d, rank 0: (0+(1+2)); rank 1: (1+(0+2)); rank 2: (2+(0+1))", k), sum)
	}
}

// TestPacketMistakes plants a fault of each kind in a plan with packets.
func TestPacketMistakes(t *testing.T) {
	text := string(packetPlan(2, twoShot))
	for _, tt := range []struct{ old, new, want string }{
		{`"LL"`, `"Simple"`, `plan.json:1:57: protocol "Simple", must be LL in a plan with packets`},
		{
			moves("upkt", []string{local("s", 1, 1)}, []string{local("i", 1, 1)}), moves("upkt", []string{local("s", 2, 1)}, []string{local("i", 1, 1)}),
			`: reads packets in chunk 2 of buffer s of gpu 0, which no op writes`,
		},
		{remoteChunk(0, 1, 1), remoteChunk(0, 0, 1), `: writes packets to chunk 0 of buffer s of gpu 1, as another op does: a reader could take either`},
		{`"name": "upkt"`, `"name": "copy"`, `buffer s, which holds packets in this plan, must not be used for other data`},
		{`"name": "upkt"`, `"name": "cpkt"`, `data of cpkt in buffer s, must be in buffer i or o: buffer s holds packets`},
		{`"name": "respkt"`, `"name": "repkt"`, `repkt with 2 local and 0 remote sources, 1 local and 1 remote destinations`},
		{`"name": "respkt"`, `"name": "recspkt"`, `recspkt with 2 local and 0 remote sources, 1 local and 1 remote destinations`},
		{local("s", 0, 1), local("s", 0, 2), `respkt of 2 chunks, must be 1 like its first source`},
		{local("s", 0, 1), local("o", 0, 1), `packets of respkt in buffer o, must be in buffer s`},
		{remoteChunk(0, 0, 1), remoteChunk(0, 0, 2), `ppkt of 1 chunks into 2`},
		{`"name": "ppkt", "channel_type": "memory"`, `"name": "ppkt", "channel_type": "port"`, `there are no buffers of the thread block over port channels`},
		{`"rank": 1, "type": "s"`, `"rank": 1, "type": "i"`, `packets of ppkt in buffer i, must be in buffer s`},
		{`{"name": "upkt"`, `{"name": "pipeline", "iter_context": {"unit_size": 1024, "num_chunks": 1}, "ops": [{"name": "upkt", "src_buff": [` + local("s", 1, 1) + `], "dst_buff": [` +
			local("i", 1, 1) + `]}]}, {"name": "upkt"`, `upkt inside a pipeline`},
		{moves("ppkt", []string{local("i", 1, 1)}, []string{remoteChunk(0, 0, 1)}) + ",\n", "", `plan.json:`},
	} {
		changed := strings.Replace(text, tt.old, tt.new, 1)
		require.NotEqual(t, text, changed, tt.old)
		_, err := Read("plan.json", []byte(changed))
		require.ErrorContains(t, err, tt.want)
		require.Regexp(t, `^plan.json:\d+:\d+: `, err.Error())
	}
	plan, err := Read("plan.json", []byte(strings.Replace(text, `"use_double_scratch_buffer": true, `, "", 1)))
	require.NoError(t, err)
	require.Equal(t, []string{"plan.json:1:1: packets without use_double_scratch_buffer: a run can overwrite packets of the previous run that have not been read"}, plan.Notes)
	// Two gpus that each wait for packets of the other before they write.
	plan, err = Read("plan.json", packetPlan(2, func(_, r int) []string {
		mine, yours := local("i", r, 1), local("i", 1-r, 1)
		return []string{
			moves("respkt", []string{mine, local("s", 0, 1)}, []string{mine, remoteChunk(0, 1, 1)}) + ",\n" +
				moves("ppkt", []string{yours}, []string{remoteChunk(0, 0, 1)}) + ",\n" + moves("upkt", []string{local("s", 1, 1)}, []string{yours}),
		}
	}))
	require.NoError(t, err)
	_, err = plan.Verify(t.Context())
	require.ErrorContains(t, err, "deadlock")
}

// inGroup is the op for thread block id of a group.
func inGroup(op string, id, size int) string {
	return strings.Replace(op, `, `, fmt.Sprintf(`, "tbg_info": {"tb_id": %d, "tbg_size": %d}, `, id, size), 1)
}

// TestGroups: thread blocks of a group move their parts of every chunk, and each tells of its own
// alone.
func TestGroups(t *testing.T) {
	const groups = 3
	plan := readable(t, packetPlan(2, func(ranks, r int) (blocks []string) {
		for id := range groups {
			for _, ops := range twoShot(ranks, r) {
				var all []string
				for op := range strings.SplitSeq(ops, ",\n") {
					all = append(all, inGroup(op, id, groups))
				}
				blocks = append(blocks, strings.Join(all, ",\n"))
			}
		}
		return blocks
	}))
	_, err := plan.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2*groups, plan.Program.Chunks)

	// Two thread blocks copy a chunk each to scratch memory, and tell the same thread block of the
	// other gpu, which reads a half of each chunk: MSCCL++'s own reduce_tbg.json is wrong in this way.
	for size, wrong := range map[int]bool{1: false, 2: true} {
		plan := readable(t, jsonPlan(2, 2, 2, "Simple", func(r int) string {
			return fmt.Sprintf(`"channels": [{"channel_type": "memory", "connected_to": [%d, %d]}], "remote_buffers": [{"rank": %d, "type": "s"}, {"rank": %d, "type": "i"}]`, 1-r, 1-r, 1-r, 1-r)
		}, `"channels": [{"channel_type": "memory", "channel_ids": [0, 1]}], "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0, 1]}]`,
			func(r int) (blocks []string) {
				for id := range 2 {
					meet := fmt.Sprintf(`{"name": "signal", "channel_ids": [%d], "channel_type": "memory"}, {"name": "wait", "channel_ids": [%d], "channel_type": "memory"}`, id, id)
					var ops []string
					for at := 0; at < 2; at += size {
						ops = append(ops, inGroup(moves("copy", []string{local("i", at, size)}, []string{local("s", at, size)}), id, 2))
					}
					blocks = append(blocks, strings.Join(append(ops, meet,
						inGroup(moves("rres", []string{local("i", r, 1), remoteChunk(0, r, 1)}, []string{local("i", r, 1), remoteChunk(1, r, 1)}), id, 2), meet), ",\n"))
				}
				return blocks
			}))
		_, err := plan.Verify(t.Context())
		if !wrong {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "race: rank 0, op")
		require.ErrorContains(t, err, "in the memory of rank 1")
	}
	_, err = Read("plan.json", packetPlan(2, func(ranks, r int) []string {
		return []string{inGroup(twoShot(ranks, r)[1], 2, 2)}
	}))
	require.ErrorContains(t, err, "tb_id 2 ")
	_, err = Read("plan.json", packetPlan(2, func(ranks, r int) (blocks []string) {
		for _, size := range []int{251, 239} {
			blocks = append(blocks, inGroup(twoShot(ranks, r)[1], 0, size))
		}
		return blocks
	}))
	require.ErrorContains(t, err, "groups of thread blocks split chunks into 59989 parts, must be at most 4096")
}

const ( // of two gpus
	bothReady = `{"name": "rlxsignal", "channel_ids": [0], "channel_type": "memory"}, {"name": "rlxwait", "channel_ids": [0], "channel_type": "memory"}`
	reduced   = `{"name": "glres", "src_buff": [{"switch_channel_id": 0, "index": MINE, "size": 1}], "dst_buff": [{"switch_channel_id": 0, "index": MINE, "size": 1}], "channel_type": "switch", "reduce_op": "sum"}`
)

// split is the op in a pipeline.
func split(op string) string {
	return `{"name": "pipeline", "iter_context": {"unit_size": 1048576, "num_chunks": 1}, "ops": [` + op + `]}`
}

// switchPlan is a plan of two gpus whose buffer i a switch adds up.
func switchPlan(ops string) []byte {
	return jsonPlan(2, 2, 0, "Simple", func(r int) string {
		return fmt.Sprintf(`"channels": [{"channel_type": "memory", "connected_to": [%d]}, {"channel_type": "switch", "buffer_type": "i", "rank_groups": [{"size": 2, "ranks": [0, 1]}]}]`, 1-r)
	}, `"channels": [{"channel_type": "memory", "channel_ids": [0]}, {"channel_type": "switch", "channel_ids": [0]}]`,
		func(r int) []string {
			return []string{bothReady + ",\n" + strings.NewReplacer("MINE", fmt.Sprint(r), "YOURS", fmt.Sprint(1-r)).Replace(ops) + ",\n" + bothReady}
		})
}

// TestSwitches: a gpu adds up a chunk of all gpus through a switch, whole or in a pipeline, and a
// fault in it is found.
func TestSwitches(t *testing.T) {
	gstore := strings.Replace(strings.Replace(reduced, "glres", "gstore", 1), `"src_buff": [{"switch_channel_id": 0,`, `"src_buff": [{"type": "i",`, 1)
	for ops, want := range map[string]string{
		reduced:                  "",
		split(reduced):           "",
		reduced + ", " + gstore:  "",
		reduced + ", " + reduced: "doubled: ",
		gstore:                   "lost: ",
		strings.ReplaceAll(reduced, "MINE", "YOURS"):                        "",
		strings.ReplaceAll(reduced, "MINE", "0"):                            "race: ",
		split(reduced) + ", " + strings.Replace(gstore, "MINE", "YOURS", 1): "race: ",
	} {
		plan, err := Read("plan.json", switchPlan(ops))
		require.NoError(t, err)
		readable(t, switchPlan(ops))
		if _, err = plan.Verify(t.Context()); want == "" {
			require.NoError(t, err, ops)
		} else {
			require.ErrorContains(t, err, want, ops)
		}
	}
	text := string(switchPlan(reduced))
	for _, tt := range []struct{ old, new, want string }{
		{`"buffer_type": "i", `, ``, `has no field "buffer_type"`},
		{`"ranks": [0, 1]`, `"ranks": [0, 0]`, `ranks [0 0], must not repeat`},
		{`"ranks": [0, 1]`, `"ranks": [1]`, `switch channel of gpus [1], must include gpu 0`},
		{`"size": 2, "ranks"`, `"size": 1, "ranks"`, `chunks 1 to 1 of a switch channel of 1`},
		{`"switch_channel_id": 0`, `"switch_channel_id": 1`, `switch_channel_id 1 must be 0`},
		{`"name": "glres"`, `"name": "copy"`, `copy over a switch channel is not supported, must be one of glres, gstore, gstorepkt`},
		{`"name": "glres"`, `"name": "gstorepkt"`, `has no field "type"`},
		{reduced[1:60], `"name": "pipeline", "iter_context": {"unit_size": 1, "num_chunks": 1}, "ops": [` + split(reduced) + `]}, {` + reduced[1:60], `pipeline inside a pipeline`},
	} {
		changed := strings.ReplaceAll(text, strings.ReplaceAll(tt.old, "MINE", "1"), strings.ReplaceAll(tt.new, "MINE", "1"))
		require.NotEqual(t, text, changed, tt.old)
		_, err := Read("plan.json", []byte(changed))
		require.ErrorContains(t, err, tt.want)
		require.Regexp(t, `^plan.json:\d+:\d+: `, err.Error())
	}
}

// TestPipelineMistakes: what makes the iterations of a pipeline wrong is refused.
func TestPipelineMistakes(t *testing.T) {
	piped := split(reduced)
	for name, tt := range map[string]struct{ ops, want string }{
		"fewer chunks than its ops": {strings.Replace(piped, `"num_chunks": 1`, `"num_chunks": 2`, 1), "size 1, must be num_chunks of the pipeline, which is 2"},
		"no chunks":                 {strings.Replace(piped, `"num_chunks": 1`, `"num_chunks": 0`, 1), "num_chunks 0 must be a number from 1 to"},
		"no number of chunks":       {strings.Replace(piped, `, "num_chunks": 1`, ``, 1), `has no field "num_chunks"`},
		"another unit":              {piped + ", " + strings.Replace(piped, "1048576", "4096", 1), "unit_size 4096 and num_chunks 1, must be 1048576 and 1 as in the first pipeline"},
		"a group": {
			split(strings.Replace(reduced, `"channel_type"`, `"tbg_info": {"tb_id": 0, "tbg_size": 2}, "channel_type"`, 1)),
			"glres of a group of thread blocks inside a pipeline is not supported",
		},
		"a semaphore that runs out": {
			split(`{"name": "sem_acquire", "semaphore_ids": [0]}, ` + reduced), "semaphore 0 must be acquired as often as it is released in an iteration of the pipelines",
		},
	} {
		_, err := Read("plan.json", []byte(strings.ReplaceAll(string(switchPlan(tt.ops)), `"scratch_chunks": 0,`, `"scratch_chunks": 0, "semaphores": [{"init_value": 2}],`)))
		require.ErrorContains(t, err, tt.want, name)
		require.Regexp(t, `^plan.json:\d+:\d+: `, err.Error())
	}
	plan, err := Read("plan.json", []byte(strings.ReplaceAll(string(switchPlan(
		split(`{"name": "sem_acquire", "semaphore_ids": [0]}, `+reduced+`, {"name": "sem_release", "semaphore_ids": [0]}`))),
		`"scratch_chunks": 0,`, `"scratch_chunks": 0, "semaphores": [{"init_value": 2}],`)))
	require.NoError(t, err)
	_, err = plan.Verify(t.Context())
	require.NoError(t, err)
}

// TestWhatTheExecutorDoes: MSCCL++ takes sources and destinations by their position, all sources of a
// put from the buffer of the first, and as many thread blocks at a barrier as an op says.
func TestWhatTheExecutorDoes(t *testing.T) {
	last := strings.TrimSuffix(ready, ",\n")
	far := `{"buffer_id": 0, "index": MINE, "size": 1}`
	put := func(from string) string {
		return ready + `{"name": "put", "channel_type": "KIND", "channel_ids": [0, 0], "src_buff": [` + spanMine + `, ` + from + `], "dst_buff": [` + far + `, {"buffer_id": 1, "index": 0, "size": 1}]},
` + last
	}
	for name, tt := range map[string]struct{ ops, want string }{
		"order of sources":         {ready + `{"name": "rre", "channel_type": "KIND", "src_buff": [` + far + `, ` + spanMine + `], "dst_buff": [` + spanMine + `]}`, "buffer o of the gpu follows a buffer of another gpu"},
		"a second local source":    {ready + `{"name": "rre", "channel_type": "KIND", "src_buff": [` + spanMine + `, ` + spanMine + `, ` + far + `], "dst_buff": [` + spanMine + `]}`, "rre with 2 local and 1 remote sources"},
		"sources in two buffers":   {put(`{"type": "s", "index": 0, "size": 1}`), "source in buffer s, must be in buffer o like the first"},
		"thread blocks that lack":  {`{"name": "barrier", "barrier_id": 0, "num_threadblocks": 7}`, "num_threadblocks 7 must be 1, the thread blocks that meet at barrier 0"},
		"a port channel that adds": {ready + `{"name": "res", "channel_type": "port", "src_buff": [` + spanMine + `, ` + spanMine + `], "dst_buff": [` + spanMine + `]}`, "res over a port channel"},
	} {
		_, err := Read("two.json", twoGPUs("memory", tt.ops))
		require.ErrorContains(t, err, tt.want, name)
		require.Regexp(t, `^two.json:\d+:\d+: `, err.Error())
	}
	_, err := Read("two.json", twoGPUs("memory", put(spanYours)))
	require.NoError(t, err)

	// A sum into one of its later sources is right: the kernel reads all before it writes.
	back := `{"name": "put", "channel_type": "KIND", "channel_ids": [0], "src_buff": [` + spanYours + `], "dst_buff": [{"buffer_id": 1, "index": 0, "size": 1}]},
` + ready + `{"name": "re", "src_buff": [{"type": "s", "index": 0, "size": 1}, ` + spanMine + `], "dst_buff": [` + spanMine + `]},
{"name": "put", "channel_type": "KIND", "channel_ids": [0], "src_buff": [` + spanMine + `], "dst_buff": [` + far + `]},
` + last
	plan, err := Read("two.json", twoGPUs("memory", back))
	require.NoError(t, err)
	_, err = plan.Verify(t.Context())
	require.NoError(t, err)
}

// TestSwitchesDiffer: a switch channel that a gpu lacks would never be set up.
func TestSwitchesDiffer(t *testing.T) {
	text := string(switchPlan(reduced))
	at := strings.LastIndex(text, `"buffer_type": "i"`)
	_, err := Read("plan.json", []byte(text[:at]+`"buffer_type": "o"`+text[at+len(`"buffer_type": "i"`):]))
	require.ErrorContains(t, err, "switch channels of gpus [0 1] differ between gpu 0 and gpu 1, must have the same buffers and sizes in the same order")
}

// TestManyPackets: thread blocks that exchange packets in order need one channel, however many there are.
func TestManyPackets(t *testing.T) {
	const rounds = 200
	plan, err := Read("plan.json", jsonPlan(2, rounds, rounds, "LL", func(r int) string {
		return fmt.Sprintf(`"channels": [], "remote_buffers": [{"rank": %d, "type": "s"}]`, 1-r)
	}, `"channels": [], "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}]`, func(int) []string {
		var ops []string
		for k := range rounds {
			ops = append(ops, moves("ppkt", []string{local("i", k, 1)}, []string{remoteChunk(0, k, 1)}), moves("repkt", []string{local("i", k, 1), local("s", k, 1)}, []string{local("i", k, 1)}))
		}
		return []string{strings.Join(ops, ",\n")}
	}))
	require.NoError(t, err)
	_, err = plan.Verify(t.Context())
	require.NoError(t, err)
}
