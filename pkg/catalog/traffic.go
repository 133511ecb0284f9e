package catalog

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/numeric"
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
	var diagnostics Errors
	diagnose := func(p Pos, format string, args ...any) {
		diagnostics = append(diagnostics, Diagnostic{p, fmt.Sprintf(format, args...)})
	}
	ends := 0 // columns of the first row
	for i, line := range strings.Split(string(data), "\n") {
		row, at := numbers(Pos{file, i + 1, 1}, line, diagnose)
		if len(at) == 0 {
			continue
		}
		if len(t.at) == 0 {
			ends = len(at)
		} else if len(at) != ends {
			diagnose(at[min(ends, len(at)-1)], "row of %d numbers, but the first row has %d", len(at), ends)
		}
		t.Bytes, t.at = append(t.Bytes, row), append(t.at, at)
	}
	switch n := len(t.at); {
	case n == 0:
		diagnose(Pos{file, 1, 1}, "the file is empty")
	case n != ends:
		diagnose(t.at[n-1][0], "%d rows of %d numbers: a traffic matrix must be square", n, ends)
	case len(diagnostics) == 0 && !slices.ContainsFunc(t.Bytes, func(row []int64) bool { return slices.Max(row) > 0 }):
		diagnose(t.at[0][0], "no rank sends anything: all numbers are 0")
	}
	if len(diagnostics) > 0 {
		return nil, diagnostics.sorted()
	}
	return t, nil
}

// numbers reads one row, with the position of each number.
func numbers(p Pos, line string, diagnose func(p Pos, format string, args ...any)) (row []int64, at []Pos) {
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
			diagnose(p, "bytes must be a whole number, not %q", word)
		case n < 0:
			diagnose(p, "bytes must not be negative: %d", n)
		case n > MaxBytes:
			diagnose(p, "at most %d bytes, not %d", int64(MaxBytes), n)
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
	var diagnostics Errors
	size := int64(element.Size())
	for i, row := range t.Bytes {
		for j, n := range row {
			if n%size != 0 {
				diagnostics = append(diagnostics, Diagnostic{t.at[i][j], fmt.Sprintf("%d bytes are not a whole number of %s elements of %d bytes", n, dtype, size)})
			}
		}
	}
	switch more := len(diagnostics) - 1; {
	case more < 0:
		return nil
	case more > 0:
		diagnostics[0].Msg += fmt.Sprintf("; %d more like this", more)
	}
	return diagnostics[:1]
}

// decode implements custom: the value is the file, below the definitions.
func (t *Traffic) decode(d *decoder, n *yaml.Node, f field) {
	var file string
	if !d.scalar(n, reflect.ValueOf(&file).Elem(), f) {
		return
	}
	data, ok := d.content(n, "traffic", file, MaxTraffic)
	if !ok {
		return
	}
	read, err := ParseTraffic(file, data)
	if err != nil {
		d.note(err)
		return
	}
	d.name(d.at(n), read.Name) // it stands in case ids
	*t = *read
}

// note takes in the diagnostics of a file, each once, however many blocks name it.
func (d *decoder) note(err error) {
	diagnostics, ok := err.(Errors) //nolint:errorlint // as ParseTraffic and Whole document
	if !ok {
		panic("catalog: an error without positions: " + err.Error())
	}
	for _, f := range diagnostics {
		if !slices.Contains(d.diagnostics, f) {
			d.diagnostics = append(d.diagnostics, f)
		}
	}
}

// Check holds traffic to the block that names it: some platform has its ranks, and
// its parts are whole elements of each type.
func (t *Traffic) Check(c *Checker, worlds []int, dtypes []string) {
	if !slices.Contains(worlds, t.Ranks()) {
		c.Diagnose(t, "%s has %d ranks, but no platform of the suite runs a backend of this block at that world size; they have %s",
			t.File, t.Ranks(), strings.ReplaceAll(strings.Trim(fmt.Sprint(worlds), "[]"), " ", ", "))
	}
	for _, dtype := range dtypes {
		if err := t.Whole(dtype); err != nil {
			c.d.note(err)
		}
	}
}
