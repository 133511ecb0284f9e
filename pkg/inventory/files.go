package inventory

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// text reads a small file; empty where there is none.
func (r *Reader) text(elem ...string) string {
	data, err := fs.ReadFile(r.root, path.Join(elem...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// number reads a decimal file.
func (r *Reader) number(elem ...string) (int64, bool) {
	n, err := strconv.ParseInt(r.text(elem...), 10, 64)
	return n, err == nil
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
