package export

import (
	"io"

	"github.com/parquet-go/parquet-go"
)

// rowGroup is the number of rows that are in memory until they are written.
const rowGroup = 1 << 17

// parquetForm writes the tidy table as Parquet: dictionaries, zstd, times in
// microseconds UTC.
type parquetForm struct{ w *parquet.GenericWriter[Row] }

func newParquet(w io.Writer, program string) (Form, error) {
	return &parquetForm{w: parquet.NewGenericWriter[Row](w, parquet.Compression(&parquet.Zstd),
		parquet.MaxRowsPerRowGroup(rowGroup), parquet.KeyValueMetadata("generator", program))}, nil
}

// Add implements Form.
func (f *parquetForm) Add(c Case) error {
	_, err := f.w.Write(c.Rows())
	return err
}

// Close implements Form.
func (f *parquetForm) Close() error { return f.w.Close() }
