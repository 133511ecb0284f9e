package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/safefile"
)

// File is a parsed file, or what is wrong with it.
type File struct {
	Name   string
	root   *yaml.Node // nil where failed is set
	failed *Diagnostic
}

// MaxFile is the largest file that is read, in bytes. The parser takes
// several hundred times as much memory.
const MaxFile = 256 << 10

// ParseFile parses a file of fsys.
func ParseFile(fsys fs.FS, name string) File {
	data, err := safefile.ReadFS(fsys, name, MaxFile)
	if err != nil {
		return broken(StartOf(name), Reason(err))
	}
	return Parse(name, data)
}

func broken(at Pos, why string) File { return File{Name: at.File, failed: &Diagnostic{at, why}} }

// Reason is an I/O error without its path, which the position already says.
func Reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// Parse parses data, which must be one YAML document; name is that of its file in messages.
func Parse(name string, data []byte) File {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := safely(func() error { return dec.Decode(&doc) })
	if errors.Is(err, io.EOF) {
		return broken(StartOf(name), "the file is empty")
	}
	if err == nil {
		err = safely(func() error { return dec.Decode(&second) })
		if err == nil {
			return broken(Pos{name, second.Line, second.Column}, "a second document: keep one")
		}
	}
	if !errors.Is(err, io.EOF) {
		return syntax(name, data, err)
	}
	return File{Name: name, root: doc.Content[0]}
}

// safely turns a panic of the parser into an error: it must not matter what
// bytes a file holds.
func safely(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	return f()
}

var syntaxLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)$`)

// parserError matches the messages whose line the YAML package counts from 0;
// in its other messages lines count from 1. Line 0 is left out of both.
var parserError = regexp.MustCompile(`^did not find expected (?:<|node content|key|'-' indicator|',' or )`)

// syntax places a syntax error. It carries a line only; the column is that of
// the line's first character.
func syntax(name string, data []byte, err error) File {
	m := syntaxLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	line, _ := strconv.Atoi(m[1]) // 0 where there is none
	if parserError.MatchString(m[2]) {
		line++
	}
	lines := strings.Split(string(data), "\n")
	line = max(1, min(line, len(lines)))
	text := lines[line-1]
	col := len(text) - len(strings.TrimLeft(text, " \t")) + 1
	return broken(Pos{name, line, col}, "not YAML: "+m[2])
}
