package dl

import (
	"debug/elf"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// identity holds the soname and the build id in the file of a library.
type identity struct {
	soname  string
	buildID string
}

const (
	noteGNUBuildID = 3
	maxNotes       = 1 << 20 // bytes; a larger segment is not a note
)

func readIdentity(path string) (identity, error) {
	f, err := elf.Open(path)
	if err != nil {
		return identity{}, err
	}
	defer f.Close()
	var id identity
	if names, err := f.DynString(elf.DT_SONAME); err == nil && len(names) > 0 {
		id.soname = names[0]
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > maxNotes {
			continue
		}
		notes := make([]byte, p.Filesz)
		if _, err := p.ReadAt(notes, 0); err != nil {
			return id, err
		}
		if desc := findNote(f, notes, "GNU\x00", noteGNUBuildID, p.Align); desc != nil {
			id.buildID = hex.EncodeToString(desc)
			break
		}
	}
	return id, nil
}

// Imports returns the sonames of the libraries that the file at path needs. It omits libraries in
// the directories that the file lists (DT_RPATH and DT_RUNPATH). It loads nothing.
func Imports(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var dirs []string
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		lists, err := f.DynString(tag)
		if err != nil {
			return nil, err
		}
		for _, list := range lists {
			dirs = append(dirs, strings.Split(strings.ReplaceAll(list, "$ORIGIN", filepath.Dir(path)), ":")...)
		}
	}
	names, err := f.ImportedLibraries()
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool {
			_, err := os.Stat(filepath.Join(dir, name))
			return err == nil
		})
	}), err
}

// isOther reports whether path exists and is not an ELF object.
func isOther(path string) bool {
	_, err := readIdentity(path)
	return err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
}

// findNote returns the description of the first note with this owner and type.
// The layout is in the ELF specification, "Note Section": three words, then
// name and description, each padded to the segment's alignment.
func findNote(f *elf.File, notes []byte, owner string, kind uint32, align uint64) []byte {
	align = max(align, 4)
	pad := func(n uint32) uint64 { return (uint64(n) + align - 1) &^ (align - 1) }
	for len(notes) >= 12 {
		nameLen := f.ByteOrder.Uint32(notes[0:])
		descLen := f.ByteOrder.Uint32(notes[4:])
		noteType := f.ByteOrder.Uint32(notes[8:])
		nameEnd := 12 + uint64(nameLen)
		descStart := 12 + pad(nameLen)
		if align == 8 { // the padding includes the header of 12 bytes
			descStart = (nameEnd + 7) &^ 7
		}
		descEnd := descStart + uint64(descLen)
		if nameEnd > uint64(len(notes)) || descEnd > uint64(len(notes)) {
			return nil
		}
		if noteType == kind && string(notes[12:nameEnd]) == owner {
			return notes[descStart:descEnd]
		}
		next := descStart + pad(descLen)
		if next > uint64(len(notes)) {
			return nil
		}
		notes = notes[next:]
	}
	return nil
}
