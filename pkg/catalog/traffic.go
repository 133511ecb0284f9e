package catalog

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/regular"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Traffic is who sends how many bytes to whom, as a file says it: a square
// matrix of plain numbers between white space, a rank's bytes to every rank a
// line, as nccl-tests reads it (NCCL_TESTS_ALLTOALLV_MATRIX_FILE).
type Traffic struct {
	File string
	// Name is the file's name without directory and extension.
	Name string
	// Bytes is from rank (row) to rank (column).
	Bytes [][]int64

	at [][]Pos
}

// MaxTraffic is the largest traffic file that is read, in bytes: that of 512 ranks
// with parts of up to a terabyte.
const MaxTraffic = 4 << 20

// ParseTraffic reads traffic; file names data in messages. A non-nil error is of
// type Errors.
func ParseTraffic(file string, data []byte) (*Traffic, error) {
	t := &Traffic{File: file, Name: strings.TrimSuffix(path.Base(file), path.Ext(file))}
	var faults Errors
	fault := func(p Pos, format string, args ...any) {
		faults = append(faults, Diagnostic{p, fmt.Sprintf(format, args...)})
	}
	ends := 0 // columns of the first row
	for i, line := range strings.Split(string(data), "\n") {
		row, at := numbers(Pos{file, i + 1, 1}, line, fault)
		if len(at) == 0 {
			continue
		}
		if len(t.at) == 0 {
			ends = len(at)
		} else if len(at) != ends {
			fault(at[min(ends, len(at)-1)], "a row of %d ranks in traffic of %d", len(at), ends)
		}
		t.Bytes, t.at = append(t.Bytes, row), append(t.at, at)
	}
	switch n := len(t.at); {
	case n == 0:
		fault(Pos{file, 1, 1}, "the file is empty")
	case n != ends:
		fault(t.at[n-1][0], "%d rows of %d ranks: traffic is square", n, ends)
	case len(faults) == 0 && !slices.ContainsFunc(t.Bytes, func(row []int64) bool { return slices.Max(row) > 0 }):
		fault(t.at[0][0], "nobody sends anything")
	}
	if len(faults) > 0 {
		faults.sort()
		return nil, faults
	}
	return t, nil
}

// numbers reads one row, with the position of each number.
func numbers(p Pos, line string, fault func(p Pos, format string, args ...any)) (row []int64, at []Pos) {
	for i := 0; i < len(line); {
		word := line[i:]
		if end := strings.IndexAny(word, " \t\r\v\f"); end >= 0 {
			word = word[:end]
		}
		if word == "" {
			i++
			continue
		}
		p.Col = i + 1
		n, err := strconv.ParseInt(word, 10, 64)
		switch {
		case err != nil || word[0] == '+':
			fault(p, "bytes must be a whole number, not %q", word)
		case n < 0:
			fault(p, "bytes must not be negative: %d", n)
		case n > MaxBytes:
			fault(p, "at most %d bytes, not %d", int64(MaxBytes), n)
		}
		row, at = append(row, n), append(at, p)
		i += len(word)
	}
	return row, at
}

// Ranks is how many ranks the traffic is of.
func (t *Traffic) Ranks() int { return len(t.Bytes) }

// Whole returns an error of type Errors where parts are no whole number of
// elements of type dtype. It names the first and how many more there are: of
// traffic that was made for another type, that may be every part.
func (t *Traffic) Whole(dtype string) error {
	element, err := numeric.ParseType(dtype)
	if err != nil {
		return err
	}
	var faults Errors
	size := int64(element.Size())
	for i, row := range t.Bytes {
		for j, n := range row {
			if n%size != 0 {
				faults = append(faults, Diagnostic{t.at[i][j], fmt.Sprintf("%d bytes are no whole number of %s, which has %d", n, dtype, size)})
			}
		}
	}
	switch more := len(faults) - 1; {
	case more < 0:
		return nil
	case more > 0:
		faults[0].Msg += fmt.Sprintf("; %d more like this", more)
	}
	return faults[:1]
}

// traffic reads the files that blocks name, each once.
func (l *loader) traffic() {
	read := map[string]bool{}
	for i := range l.cat.Suites {
		for j := range l.cat.Suites[i].Collective {
			b := &l.cat.Suites[i].Collective[j]
			if b.Traffic == "" || read[b.Traffic] {
				continue
			}
			read[b.Traffic] = true
			if t := l.readTraffic(l.pos[&b.Traffic], b.Traffic); t != nil {
				l.cat.Traffic = append(l.cat.Traffic, *t)
			}
		}
	}
}

// readTraffic returns nil where the file that is named at p is not sound.
func (l *loader) readTraffic(p Pos, file string) *Traffic {
	if !fs.ValidPath(file) {
		l.fault(p, "%q is no path below the definitions", file)
		return nil
	}
	data, err := regular.ReadFS(l.fsys, file, MaxTraffic)
	if err != nil {
		l.fault(p, "traffic %q: %s", file, reason(err))
		return nil
	}
	t, err := ParseTraffic(file, data)
	if err != nil {
		l.note(err)
		return nil
	}
	l.name(p, t.Name) // it stands in case ids
	return t
}

// note takes in the faults of a file, each once, however many blocks name it.
func (l *loader) note(err error) {
	faults, ok := err.(Errors) //nolint:errorlint // as ParseTraffic and Whole document
	if !ok {
		panic("catalog: an error without positions: " + err.Error())
	}
	for _, f := range faults {
		if !slices.Contains(*l.faults, f) {
			*l.faults = append(*l.faults, f)
		}
	}
}

// checkTraffic holds traffic to the block that names it: the operation takes it,
// some platform has its ranks, and its parts are whole elements.
func (l *loader) checkTraffic(s *Suite, b *CollectiveBlock) {
	for i := range b.Ops {
		switch op := b.Ops[i]; {
		case vocab.TakesTraffic(op) && b.Traffic == "":
			l.fault(l.pos[&b.Ops[i]], "%s needs the key \"traffic\", in a block without sizes", op)
		case !vocab.TakesTraffic(op) && b.Sizes == nil:
			l.fault(l.pos[&b.Ops[i]], "%s needs the key \"sizes\", in a block without traffic", op)
		}
	}
	if b.Sizes != nil && b.Traffic != "" {
		l.fault(l.pos[&b.Traffic], "a block has sizes or traffic, not both: traffic has its own size")
	}
	t := l.cat.TrafficOf(b)
	if t == nil {
		return
	}
	worlds := l.worlds(s, b)
	if !slices.Contains(worlds, t.Ranks()) {
		l.fault(l.pos[&b.Traffic], "%s is of %d ranks, and no platform of the suite runs a backend of this block with as many; they have %s",
			b.Traffic, t.Ranks(), strings.ReplaceAll(strings.Trim(fmt.Sprint(worlds), "[]"), " ", ", "))
	}
	for _, dtype := range b.DTypes {
		if err := t.Whole(dtype); err != nil {
			l.note(err)
		}
	}
}

// worlds lists the world sizes of a block, ascending.
func (l *loader) worlds(s *Suite, b *CollectiveBlock) []int {
	var out []int
	for _, sku := range s.Platforms {
		for _, be := range b.Backends {
			if sup := l.cat.Platform(sku).Support(be); sup != nil {
				out = append(out, sup.Collective...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
