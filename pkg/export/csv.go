package export

import (
	"encoding/csv"
	"io"
	"reflect"
	"strconv"
	"time"
)

// csvForm writes the tidy table as CSV: UTF-8, LF, a header, null as an empty cell.
type csvForm struct {
	w     *csv.Writer
	cells []string
}

func newCSV(w io.Writer, _ string) (Form, error) {
	f := &csvForm{w: csv.NewWriter(w), cells: make([]string, len(Columns()))}
	return f, f.w.Write(Columns())
}

// Add implements Form.
func (f *csvForm) Add(c Case) error {
	for _, row := range c.Rows() {
		v := reflect.ValueOf(row)
		for i := range f.cells {
			f.cells[i] = cell(v.Field(i).Interface())
		}
		if err := f.w.Write(f.cells); err != nil {
			return err
		}
	}
	return nil
}

// Close implements Form.
func (f *csvForm) Close() error {
	f.w.Flush()
	return f.w.Error()
}

// cell formats a value of a Row. Numbers are the shortest that parse as the same float64.
func cell(value any) string {
	switch v := value.(type) {
	case string:
		return harmless(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case int64:
		return strconv.FormatInt(v, 10)
	case *int64:
		if v == nil {
			return ""
		}
		return strconv.FormatInt(*v, 10)
	case bool:
		return strconv.FormatBool(v)
	default:
		return value.(time.Time).UTC().Format(time.RFC3339Nano)
	}
}

// harmless prefixes text that a spreadsheet would take for a formula with an apostrophe.
func harmless(text string) string {
	if text == "" {
		return ""
	}
	switch text[0] {
	case '=', '+', '-', '@', '\t', '\r':
		return "'" + text
	}
	return text
}
