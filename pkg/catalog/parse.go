package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/safefile"
)

// parsed is a definition file as YAML, or what is wrong with it.
type parsed struct {
	file   string
	root   *yaml.Node // nil where failed is set
	failed *Diagnostic
}

// parseAll reads and parses files side by side, since that is most of the work
// of a Load.
func parseAll(fsys fs.FS, files []string) map[string]parsed {
	results := make([]parsed, len(files))
	var running sync.WaitGroup
	for i, f := range files {
		running.Go(func() { results[i] = parseFile(fsys, f) })
	}
	running.Wait()
	out := make(map[string]parsed, len(files))
	for _, p := range results {
		out[p.file] = p
	}
	return out
}

// MaxFile is the largest definition file that is read, in bytes. The parser takes
// several hundred times as much memory.
const MaxFile = 256 << 10

func parseFile(fsys fs.FS, file string) parsed {
	data, err := safefile.ReadFS(fsys, file, MaxFile)
	if err != nil {
		return parsed{file: file, failed: &Diagnostic{Pos{file, 1, 1}, reason(err)}}
	}
	return parse(file, data)
}

// reason is an I/O error without its path, which the position already says.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// parse parses data, which must be one YAML document.
func parse(file string, data []byte) parsed {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := safely(func() error { return dec.Decode(&doc) })
	if errors.Is(err, io.EOF) {
		return parsed{file: file, failed: &Diagnostic{Pos{file, 1, 1}, "the file is empty"}}
	}
	if err == nil {
		err = safely(func() error { return dec.Decode(&second) })
		if err == nil {
			return parsed{file: file, failed: &Diagnostic{Pos{file, second.Line, second.Column}, "a second document: a definition file holds one"}}
		}
	}
	if !errors.Is(err, io.EOF) {
		return parsed{file: file, failed: syntax(file, data, err)}
	}
	return parsed{file: file, root: doc.Content[0]}
}

// safely turns a panic of the parser into an error: it must not matter what
// bytes a definition file holds.
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
func syntax(file string, data []byte, err error) *Diagnostic {
	m := syntaxLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	line, _ := strconv.Atoi(m[1]) // 0 where there is none
	if parserError.MatchString(m[2]) {
		line++
	}
	lines := strings.Split(string(data), "\n")
	line = max(1, min(line, len(lines)))
	text := lines[line-1]
	col := len(text) - len(strings.TrimLeft(text, " \t")) + 1
	return &Diagnostic{Pos{file, line, col}, "not YAML: " + m[2]}
}
