package families_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// apart has the fields of all cases that the comparison key leaves out, and why.
var apart = map[string]string{
	"case_id":        "a name",
	"sku":            "a name: the product is in topology_class",
	"suite":          "a name",
	"repeat":         "repeats are compared with each other",
	"ranks_per_node": "follows from world and nodes",
	"scope":          "follows from nodes and scale_up_domain",
	"transport":      "follows from the transports of both scopes",
}

// Reasons that families share.
const (
	byRow  = "rows are matched one by one"
	digest = "its digest is in the key"
)

// keyed are cases with all optional parts of their families, and the fields of each block that the key
// leaves out.
func keyed() map[string]struct {
	of    plan.Case
	apart map[string]string
} {
	type keyed = struct {
		of    plan.Case
		apart map[string]string
	}
	const repeats = "repeats follow the timed windows"
	epFields := map[string]string{"ep": "equals world", "routing_experts": digest, "repeatable": repeats}
	measured := map[string]string{
		"sizes": byRow, "placements": byRow, "modes": byRow, "traffic_name": "a name", "plan_file": "equals algorithm",
		"measure.checks": "checks are beside the timed windows", "measure.repeatable": repeats,
	}
	ring, simulated := plantest.Twins()
	recorded := plantest.EP(2, func(c *plan.Case) { ep.Of(c).Record([]int{0, 1, 2, 3}) })
	planned, _ := plantest.Planned(ring, "ring.xml", []byte("a plan"))
	return map[string]keyed{
		"ep":                     {plantest.EP(2), epFields},
		"ep, tuned":              {plantest.EP(2, func(c *plan.Case) { ep.Of(c).Tuning = &ep.Tuning{SMs: 24} }), epFields},
		"ep, recorded":           {recorded, epFields},
		"ep, replicated experts": {plantest.EP(2, func(c *plan.Case) { ep.Of(c).Routing = "zipf-eplb" }), epFields},
		"collective":             {plantest.Collective(2), measured},
		"schedule":               {ring, measured},
		"schedule of a file":     {planned, measured},
		"simulation":             {simulated, map[string]string{"sizes": byRow, "model.name": "a name", "model.source": "a name"}},
		"copy": {plantest.Copy("ce", copies.Tests()[0], func(c *plan.Case) { copies.Of(c).Victim, copies.Of(c).PageBytes = true, 4096 }), map[string]string{
			"sizes": byRow, "streams": byRow, "profile": "a name",
		}},
		"copy, swap of blocks": {plantest.Copy("ce", "swap_blocks_h2d", func(c *plan.Case) { copies.Of(c).Profile = copies.Profiles()[0] }), map[string]string{
			"sizes": byRow, "streams": byRow, "profile": "a name: the grid is in the key",
		}},
		"overlap": {plantest.Overlap("host", overlap.Beside, 2), map[string]string{"sizes": byRow}},
		"transfer": {plantest.Transfer(), map[string]string{
			"ep": "equals world", "phase": "a constant", "layers": "entries have them", "ops": byRow, "pool_budget": "the pool itself is in the key",
		}},
	}
}

// Every field of a case is in the comparison key, or in the lists above with the reason why not.
func TestEveryFieldIsInTheKey(t *testing.T) {
	seen := map[plan.Family]bool{}
	for name, k := range keyed() {
		t.Run(name, func(t *testing.T) {
			seen[k.of.Family] = true
			base, listed := key(t, k.of), map[string]bool{}
			for n := 0; ; n++ {
				c := fresh(t, k.of)
				all := append(changes(reflect.ValueOf(&c).Elem(), ""), changes(reflect.ValueOf(c.Block).Elem(), "")...)
				if n == len(all) {
					break
				}
				all[n].do()
				field, _, _ := strings.Cut(all[n].field, "[")
				if field == "family" { // would need another block
					continue
				}
				same := key(t, c) == base
				if apart[field] != "" || k.apart[field] != "" {
					listed[field] = true
					require.True(t, same, "%s is in the key, so that the list is wrong", all[n].field)
				} else {
					require.False(t, same, "%s is not in the key: add it, or say in this test why cases that differ in it may be compared", all[n].field)
				}
			}
			for field := range apart {
				require.True(t, listed[field], "no field %s", field)
			}
		})
	}
	for _, f := range family.All() {
		require.True(t, seen[f.Plan.Name], "no case of family %s", f.Plan.Name)
	}
}

// The key of an EP case has the ladder's largest rung, which sizes buffers, and no other: not where buffers have
// the size of low-latency mode or of CollectiveX's own ladders, whose keys are those of earlier versions.
func TestRungsInTheKey(t *testing.T) {
	of := func(mode, phase string, limit *int, rungs ...int) string {
		return key(t, plantest.EP(2, func(c *plan.Case) {
			b := ep.Of(c)
			b.Mode, b.Phase, b.LadderCap, b.Ladder = mode, phase, limit, rungs
		}))
	}
	limit := 64
	for mode, same := range map[string]bool{ep.ModeNormal: false, ep.ModeLowLatency: true} {
		require.Equal(t, of(mode, "decode", nil, 1, 128), of(mode, "decode", nil, 8, 32, 128), "smaller rungs")
		require.Equal(t, of(mode, "decode", &limit, 1, 64), of(mode, "decode", &limit, 1, 64, 128), "rungs above the cap")
		require.Equal(t, same, of(mode, "decode", nil, 1, 8) == of(mode, "decode", nil, 1, 8, 128))
		require.Equal(t, same, of(mode, "decode", nil, 1, 8) == of(mode, "decode", nil, 1, 256))
	}
	require.NotEqual(t, of(ep.ModeLowLatency, "decode", nil, 1, 256), of(ep.ModeLowLatency, "decode", nil, 1, 512))
	for phase, largest := range map[string]int{"decode": 512, "prefill": 8192} {
		factors, err := result.ComparisonFactors(plantest.EP(2, func(c *plan.Case) {
			ep.Of(c).Phase, ep.Of(c).Ladder = phase, plan.Ladder{1, largest}
		}), nil)
		require.NoError(t, err)
		require.NotContains(t, factors, "ep.buffered_tokens")
	}
}

// Cases of the shipped suites have one key only on GPUs of one model.
func TestGPUModelsHaveKeysOfTheirOwn(t *testing.T) {
	cat := plantest.Shipped()
	products := map[string]string{}
	for q := range plantest.Resolve(cat, planner.Filters{}).Requested() {
		product, of := cat.Platform(q.SKU).Product, key(t, q.Case)
		if other, ok := products[of]; ok {
			require.Equal(t, other, product, q.Case.CaseID)
		}
		products[of] = product
	}
	require.Greater(t, len(products), 1000)
}

// Cases that a suite asks of a platform have keys of their own, so that none is compared with another.
func TestCasesOfAPlanHaveKeysOfTheirOwn(t *testing.T) {
	type planned struct{ sku, suite, key string }
	cases := map[planned]string{}
	for q := range plantest.Resolve(plantest.Shipped(), planner.Filters{}).Requested() {
		if q.Case.Repeat > 1 {
			continue
		}
		at := planned{q.SKU, q.Case.Suite, key(t, q.Case)}
		require.Empty(t, cases[at], "%s has the key of %s", q.Case.CaseID, cases[at])
		cases[at] = q.Case.CaseID
	}
	require.Greater(t, len(cases), 1000)
}

// The library's version is beside the key, so that an old and a new one can be compared.
func TestVersionsShareAKey(t *testing.T) {
	for _, c := range []plan.Case{plantest.EP(2), plantest.Collective(2), plantest.Transfer()} {
		d := resulttest.Successful(c, resulttest.Attempt())
		other := "9.9.9"
		d.Head().Implementation.LibraryVersion = &other
		require.NoError(t, result.Validate(d))
	}
}

func key(t *testing.T, c plan.Case) string {
	t.Helper()
	k, err := result.ComparisonKey(c, nil)
	require.NoError(t, err)
	return k
}

// fresh returns a copy that shares nothing with c.
func fresh(t *testing.T, c plan.Case) (out plan.Case) {
	t.Helper()
	text, err := json.Marshal(c)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// change is one change of a field, named as in JSON: of a list, of its last element or its length.
type change struct {
	field string
	do    func()
}

// changes returns changes of every field in v, of which each makes another value.
func changes(v reflect.Value, field string) (all []change) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			of := v.Type().Field(i)
			name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
			if name == "" && !of.Anonymous {
				name = of.Name
			}
			if name != "-" {
				all = append(all, changes(v.Field(i), strings.Trim(field+"."+name, "."))...)
			}
		}
	case reflect.Slice:
		if n := v.Len(); n > 0 {
			all = changes(v.Index(n-1), field+"[]")
		}
		all = append(all, change{field + "[+]", func() {
			last := reflect.New(v.Type().Elem()).Elem()
			if n := v.Len(); n > 0 {
				last.Set(v.Index(n - 1))
				if scalar := changes(last, ""); len(scalar) == 1 {
					scalar[0].do()
				}
			}
			v.Set(reflect.Append(v, last))
		}})
	case reflect.Map:
		all = append(all, change{field, func() {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("X"), reflect.ValueOf("1"))
		}})
	case reflect.Pointer:
		to := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			to.Elem().Set(v.Elem())
		}
		all = append(all, change{field, func() { changes(to.Elem(), "")[0].do(); v.Set(to) }})
	case reflect.String:
		all = append(all, change{field, func() { v.SetString(v.String() + "x") }})
	case reflect.Bool:
		all = append(all, change{field, func() { v.SetBool(!v.Bool()) }})
	case reflect.Float64:
		all = append(all, change{field, func() { v.SetFloat(v.Float() + 1) }})
	case reflect.Uint64:
		all = append(all, change{field, func() { v.SetUint(v.Uint() + 1) }})
	default:
		all = append(all, change{field, func() { v.SetInt(v.Int() + 1) }})
	}
	return all
}
