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

// The patterns match what the programs are built from and no tests, so that a changed test
// relinks neither program. A pattern cannot exclude *_test.go. Four together match the other Go
// files of a directory: those that do not end in t.go, and those that end in t.go but not st.go,
// in st.go but not est.go, and in est.go but not test.go. A contest.go needs a fifth,
// [a-z]*[^_]test.go. A pattern that matches nothing fails the build. A test names the files that
// are missing.

//go:embed go.mod go.sum source.go cmd/*/main.go matrix/matrix.go matrix/*.yaml matrix/*/*.yaml matrix/*/*.txt
//go:embed pkg/*/[a-z]*[^t].go pkg/*/[a-z]*[^s]t.go pkg/*/[a-z]*[^e]st.go pkg/*/[a-z]*[^t]est.go
//go:embed pkg/*/*/[a-z]*[^t].go pkg/*/*/[a-z]*[^s]t.go pkg/*/*/[a-z]*[^e]st.go pkg/*/*/[a-z]*[^t]est.go
//go:embed pkg/*/*/*/[a-z]*[^s]t.go

// C, CUDA, Python and all else that is not Go, but for testdata.
//
//go:embed pkg/*/[a-z]*.[^g]* pkg/*/[^t]*/[a-z]*.[^g]* pkg/*/[^t]*/[^t]*/[a-z]*.[^g]*
var files embed.FS

// SourceVersion returns 16 hexadecimal digits that identify the source this
// program was built from: the start of the SHA-256 of the names and contents of
// all embedded files. Programs built from one tree return the same digits,
// however they were built and whether or not the tree is committed; programs
// built from trees that differ in any embedded file do not.
func SourceVersion() string { return version(files) }

// version returns what SourceVersion does, for a program that embeds tree.
func version(tree fs.FS) string {
	h := sha256.New()
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		fmt.Fprintf(h, "%s %d\n", name, len(data))
		h.Write(data)
		return err
	})
	if err != nil {
		panic(err) // embedded files are in memory
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
