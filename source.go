// Package collectivex is the source of cxgen and cxrun, embedded in both, so
// that each knows which source it was built from.
package collectivex

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
)

//go:embed cmd matrix pkg go.mod go.sum source.go
var files embed.FS

// SourceVersion returns 16 hexadecimal digits that identify the source this
// program was built from: the start of the SHA-256 of the names and contents of
// all embedded files. Programs built from one tree return the same digits,
// however they were built and whether or not the tree is committed; programs
// built from trees that differ in any embedded file do not.
func SourceVersion() string {
	h := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		fmt.Fprintf(h, "%s %d\n", name, len(data))
		h.Write(data)
		return err
	})
	if err != nil {
		panic(err) // embedded files are in memory
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
