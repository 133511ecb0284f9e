package pool

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/result"
)

// WordBytes is the size of a word. Every word of a pool names its origin: the pool (8 bits), the checked
// burst for which the pool was painted (16 bits), and the sum of its index and the number of the pool (40 bits).
// The numbers of the pools of successive ranks differ by an odd number. The first bytes of two words at places an even
// number of words apart therefore differ, so that a copy of one byte too many changes the byte behind it.
const WordBytes = 8

// Origin identifies the pool and the checked burst of words.
type Origin struct {
	Pool  uint8
	Nonce uint16
}

// Of returns the pool number of a rank. Its words are not small numbers and do not repeat a byte.
func Of(rank int) uint8 { return 0xA1 + 0x1B*uint8(rank) }

// Word returns the value of word i of a pool that o painted.
func (o Origin) Word(i int) uint64 {
	return uint64(o.Pool)<<56 | uint64(o.Nonce)<<40 | uint64(i) + uint64(o.Pool)
}

// Span is a block in words.
type Span struct{ Dst, Src, N int }

// Finding is what a check of a pool found.
type Finding struct {
	Checked int64        `json:"checked"`
	Wrong   result.Wrong `json:"wrong"`
	Class   string       `json:"class,omitempty"` // of the first wrong word
	At      int64        `json:"at,omitempty"`    // its byte in the pool
}

// wrong counts n words of a class, beginning with word i.
func (f *Finding) wrong(class string, n int64, i int) {
	if n == 0 {
		return
	}
	for _, c := range f.Wrong.Classes() {
		if c.Name == class {
			*c.Count += n
		}
	}
	if at := int64(i) * WordBytes; f.Class == "" || at < f.At {
		f.Class, f.At = class, at
	}
}

// untouched counts wrong words in a range that must not change. first is the index of the first
// word.
func (f *Finding) untouched(o Origin, words []uint64, first int, class string) {
	base := o.Word(first)
	n, at := int64(0), 0
	for i, w := range words {
		if w != base+uint64(i) {
			if n == 0 {
				at = first + i
			}
			n++
		}
	}
	f.wrong(class, n, at)
}

// Unchanged checks that a pool still has its painted words. Others are of the given class: source, for
// a pool from which blocks were read, or late.
func Unchanged(o Origin, pool Memory, class string) (Finding, error) {
	return compare(pool, []Stretch{{0, pool.Words(), o.Word(0)}}, func(f *Finding, _ int, words []uint64) {
		f.untouched(o, words, 0, class)
	})
}

// Destination checks a pool into which blocks were written: the blocks must have the words of src, and
// all others their painted words.
func Destination(dst, src Origin, pool Memory, blocks []Span) (Finding, error) {
	stretches := make([]Stretch, 0, 2*len(blocks)+1) // gaps, each followed by a block except the last
	end := 0
	for _, b := range blocks {
		stretches = append(stretches, Stretch{end, b.Dst - end, dst.Word(end)}, Stretch{b.Dst, b.N, src.Word(b.Src)})
		end = b.Dst + b.N
	}
	stretches = append(stretches, Stretch{end, pool.Words() - end, dst.Word(end)})
	return compare(pool, stretches, func(f *Finding, i int, words []uint64) {
		if i%2 == 0 {
			f.untouched(dst, words, stretches[i].At, "guard")
		} else {
			f.classify(dst, src, words, blocks[i/2])
		}
	})
}

// compare finds the stretches with wrong words, and classifies these words.
func compare(pool Memory, stretches []Stretch, classify func(f *Finding, stretch int, words []uint64)) (f Finding, err error) {
	for _, s := range stretches {
		f.Checked += int64(s.N)
	}
	wrong, err := pool.Wrong(stretches)
	if err != nil {
		return f, err
	}
	for _, i := range wrong {
		s, before := stretches[i], f.Wrong.Total()
		words, err := pool.Read(s.At, s.N)
		if err != nil {
			return f, err
		}
		if classify(&f, i, words); f.Wrong.Total() > before {
			continue
		}
		if again, err := pool.Wrong(stretches[i : i+1]); err != nil {
			return f, err
		} else if len(again) > 0 {
			return f, fmt.Errorf("%w: of %d words from word %d on some are wrong on the %s, none on the host", ErrDisagree, s.N, s.At, pool.CheckedBy())
		}
		f.wrong("late", int64(s.N), s.At) // they came meanwhile
	}
	return f, nil
}

const (
	indexMask = 1<<40 - 1
	nonceMask = 0xFFFF << 40
)

// classify counts the wrong words of a block. Missing words are torn if other words of their block
// arrived, or if some are stale and others not written.
func (f *Finding) classify(dst, src Origin, words []uint64, b Span) {
	type class struct {
		n  int64
		at int
	}
	var right int64
	var unwritten, stale, misplaced, corrupted class
	add := func(c *class, i int) {
		if c.n == 0 {
			c.at = b.Dst + i
		}
		c.n++
	}
	for i, w := range words {
		want := src.Word(b.Src + i)
		switch {
		case w == want:
			right++
		case w == dst.Word(b.Dst+i):
			add(&unwritten, i)
		case w&^nonceMask == want&^nonceMask:
			add(&stale, i)
		case w&^indexMask == want&^indexMask:
			add(&misplaced, i)
		default:
			add(&corrupted, i)
		}
	}
	if right > 0 || unwritten.n > 0 && stale.n > 0 {
		f.wrong("torn", unwritten.n, unwritten.at)
		f.wrong("torn", stale.n, stale.at)
	} else {
		f.wrong("not written", unwritten.n, unwritten.at)
		f.wrong("stale", stale.n, stale.at)
	}
	f.wrong("misplaced", misplaced.n, misplaced.at)
	f.wrong("corrupted", corrupted.n, corrupted.at)
}

// Later adds a second look at the words of f. Words that are wrong in one of them only are late.
func (f *Finding) Later(again Finding) {
	late := f.Wrong.Total() - again.Wrong.Total()
	f.Checked += again.Checked
	switch {
	case late > 0:
		f.Wrong, f.Class = again.Wrong, "late"
		f.Wrong.Late += late
	case late < 0:
		f.Wrong.Late -= late
		if f.Class == "" {
			f.Class, f.At = "late", again.At
		}
	}
}

// Sum summarizes the checks of a row. expected is the required number of checks. where names the
// memory of finding i.
func Sum(expected int, found []Finding, where func(i int) string) (v result.Verify) {
	worst := -1
	for i := range found {
		v.Checks++
		v.Checked += found[i].Checked
		v.Wrong.Add(found[i].Wrong)
		if worst < 0 && found[i].Class != "" {
			worst = i
		}
	}
	v.Passed = v.Checks == expected && v.Checked > 0 && v.Wrong.Total() == 0
	switch {
	case worst >= 0:
		v.Detail = fmt.Sprintf("%s: %d of %d words wrong, the first at byte %d of %s", found[worst].Class, v.Wrong.Total(), v.Checked, found[worst].At, where(worst))
	case !v.Passed:
		v.Detail = fmt.Sprintf("%d of %d checks ran", v.Checks, expected)
	default:
		v.Detail = fmt.Sprintf("%d checks, %d words", v.Checks, v.Checked)
	}
	return v
}

// Reasons returns the reason of a case with a class of wrong words; nil if there are none.
func Reasons(v result.Verify) result.Reasons {
	for _, c := range v.Wrong.Classes() {
		if *c.Count > 0 {
			return result.Reasons{result.ReasonCheck.With("%s, %d words", c.Name, *c.Count)}
		}
	}
	return nil
}
