package inventory

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// bytes reads a small file; nil where there is none.
func (r *Reader) bytes(elem ...string) []byte {
	data, err := fs.ReadFile(r.root, path.Join(elem...))
	if err != nil {
		return nil
	}
	return data
}

// text reads a small file; empty where there is none.
func (r *Reader) text(elem ...string) string {
	return strings.TrimSpace(string(r.bytes(elem...)))
}

// number reads a decimal file.
func (r *Reader) number(elem ...string) (int64, bool) {
	n, err := strconv.ParseInt(r.text(elem...), 10, 64)
	return n, err == nil
}

// maxCPU bounds the lists that are believed.
const maxCPU = 1 << 16

// cpuList reads a list of processors: "0-3,8,10-11". A list that cannot be read
// has none.
func (r *Reader) cpuList(elem ...string) []int {
	var cpus []int
	for part := range strings.SplitSeq(r.text(elem...), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from > to || to >= maxCPU {
			return nil
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// list returns the names in a directory; none where there is no directory.
func (r *Reader) list(elem ...string) []string {
	entries, err := fs.ReadDir(r.root, path.Join(elem...))
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// properties reads "name value" lines with decimal values.
func (r *Reader) properties(elem ...string) map[string]uint64 {
	out := map[string]uint64{}
	for line := range strings.Lines(r.text(elem...)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil {
			out[name] = n
		}
	}
	return out
}
