package collective

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/strictyaml"
)

// Traffic is an alltoallv matrix read from a file in the format of nccl-tests
// (NCCL_TESTS_ALLTOALLV_MATRIX_FILE). Each line is for one sending rank and lists its bytes to every
// rank, separated by white space.
type Traffic struct {
	File string
	// Name is the file's name without directory and extension.
	Name string
	// Bytes holds the bytes from rank (row) to rank (column).
	Bytes [][]int64

	at [][]strictyaml.Pos
}

// MaxTraffic is the maximum size of a traffic file, in bytes. It is enough for 512 ranks with parts of
// up to a terabyte.
const MaxTraffic = 4 << 20

// ParseTraffic parses the contents of a traffic file. Errors name it by file and have the type
// strictyaml.Errors.
func ParseTraffic(file string, data []byte) (*Traffic, error) {
	t := &Traffic{File: file, Name: strings.TrimSuffix(path.Base(file), path.Ext(file))}
	var diagnostics strictyaml.Errors
	diagnose := func(p strictyaml.Pos, format string, args ...any) {
		diagnostics = append(diagnostics, strictyaml.Diagnostic{Pos: p, Msg: fmt.Sprintf(format, args...)})
	}
	ends := 0 // columns of the first row
	for i, line := range strings.Split(string(data), "\n") {
		row, at := numbers(strictyaml.Pos{File: file, Line: i + 1, Col: 1}, line, diagnose)
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
		diagnose(strictyaml.StartOf(file), "the file is empty")
	case n != ends:
		diagnose(t.at[n-1][0], "%d rows of %d numbers: a traffic matrix must be square", n, ends)
	case len(diagnostics) == 0 && !slices.ContainsFunc(t.Bytes, func(row []int64) bool { return slices.Max(row) > 0 }):
		diagnose(t.at[0][0], "no rank sends anything: all numbers are 0")
	}
	if len(diagnostics) > 0 {
		return nil, diagnostics.Sorted()
	}
	return t, nil
}

// numbers reads one row, with the position of each number.
func numbers(p strictyaml.Pos, line string, diagnose func(p strictyaml.Pos, format string, args ...any)) (row []int64, at []strictyaml.Pos) {
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
		case n > catalog.MaxBytes:
			diagnose(p, "bytes must be at most %d, not %d", int64(catalog.MaxBytes), n)
		}
		row, at = append(row, n), append(at, p)
		i += len(word)
	}
	return row, at
}

// Ranks returns the number of ranks in the matrix.
func (t *Traffic) Ranks() int { return len(t.Bytes) }

// Whole returns an error of type strictyaml.Errors unless all parts are whole numbers of elements of
// type dtype. The error names the first wrong part and the number of further ones, since all parts may
// be wrong if the file was made for another type.
func (t *Traffic) Whole(dtype string) error {
	element, err := numeric.ParseType(dtype)
	if err != nil {
		return err
	}
	var diagnostics strictyaml.Errors
	size := int64(element.Size())
	for i, row := range t.Bytes {
		for j, n := range row {
			if n%size != 0 {
				diagnostics = append(diagnostics, strictyaml.Diagnostic{Pos: t.at[i][j], Msg: fmt.Sprintf("%d bytes are not a whole number of %s elements of %d bytes", n, dtype, size)})
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

// Source implements strictyaml.InFile.
func (*Traffic) Source() strictyaml.Source {
	return strictyaml.Source{What: "traffic", Limit: MaxTraffic}
}

// Parse implements strictyaml.InFile.
func (t *Traffic) Parse(file string, data []byte) (string, error) {
	read, err := ParseTraffic(file, data)
	if err != nil {
		return "", err
	}
	*t = *read
	return "", catalog.CheckName(t.Name) // it is part of case ids
}

// Check checks traffic against the suite block that names it. A platform must have a world of its
// number of ranks, and its parts must be whole elements of each type.
func (t *Traffic) Check(c *catalog.Checker, worlds []int, dtypes []string) {
	if !slices.Contains(worlds, t.Ranks()) {
		c.Diagnose(t, "%s has %d ranks, but no platform of the suite runs a backend of this block at that world size; they have %s",
			t.File, t.Ranks(), strings.ReplaceAll(strings.Trim(fmt.Sprint(worlds), "[]"), " ", ", "))
	}
	for _, dtype := range dtypes {
		c.Note(t.Whole(dtype))
	}
}
