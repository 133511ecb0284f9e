package host

// #cgo CFLAGS: -O3 -std=c11 -Wall -Wextra
// #include "rows.h"
import "C"

import (
	"unsafe"

	"github.com/collectivex/collectivex/pkg/ep/runner"
)

// The functions below are Go wrappers of rows.h. Rows are not empty, and all slices of a call
// have the same number of columns.

func u16(row []uint16) *C.uint16_t { return (*C.uint16_t)(unsafe.SliceData(row)) }

func f32(sum []float32) *C.float { return (*C.float)(unsafe.SliceData(sum)) }

func u8(codes []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(codes)) }

// blockOf returns the block size of a codec in columns, 0 for none.
func blockOf(c runner.Codec) C.int64_t {
	if !c.Block {
		return 0
	}
	return runner.BlockColumns
}

func encodeRow(c runner.Codec, codes []byte, scales []float32, row []uint16) {
	C.cx_row_encode(u8(codes), f32(scales), u16(row), C.int64_t(len(row)), blockOf(c), runner.MinBlockMax)
}

func decodeRow(c runner.Codec, row []uint16, codes []byte, scales []float32) {
	C.cx_row_decode(u16(row), u8(codes), f32(scales), C.int64_t(len(row)), blockOf(c))
}

func addRow(sum []float32, row []uint16) {
	C.cx_row_add(f32(sum), u16(row), C.int64_t(len(row)))
}

func addWeightedRow(sum []float32, row []uint16, weight float32) {
	C.cx_row_add_weighted(f32(sum), u16(row), C.float(weight), C.int64_t(len(row)))
}

func flushRow(sum, part []float32) {
	C.cx_row_flush(f32(sum), f32(part), C.int64_t(len(sum)))
}

func addRoundedRow(sum, part []float32) {
	C.cx_row_add_rounded(f32(sum), f32(part), C.int64_t(len(sum)))
}

func roundRow(row []uint16, sum []float32) {
	C.cx_row_round(u16(row), f32(sum), C.int64_t(len(row)))
}
