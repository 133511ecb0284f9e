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
)

// Reason returns the text of an I/O error without its path, which the position already names.
func Reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// parse parses data, which must be one YAML document. If it is not, parse returns where and why.
func parse(name string, data []byte) (root *yaml.Node, at Pos, why string) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := safely(func() error { return dec.Decode(&doc) })
	if errors.Is(err, io.EOF) {
		return nil, StartOf(name), "the file is empty"
	}
	if err == nil {
		err = safely(func() error { return dec.Decode(&second) })
		if err == nil {
			return nil, Pos{name, second.Line, second.Column}, "a second document: keep one"
		}
	}
	if !errors.Is(err, io.EOF) {
		at, why = syntax(name, data, err)
		return nil, at, why
	}
	return doc.Content[0], at, ""
}

// safely returns a panic of the parser as an error, since files may hold any bytes.
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

// syntax returns the position of a syntax error. The error has only a line; the column is where the text of
// that line begins.
func syntax(name string, data []byte, err error) (at Pos, why string) {
	m := syntaxLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	line, _ := strconv.Atoi(m[1]) // 0 where there is none
	if parserError.MatchString(m[2]) {
		line++
	}
	lines := strings.Split(string(data), "\n")
	line = max(1, min(line, len(lines)))
	text := lines[line-1]
	col := len(text) - len(strings.TrimLeft(text, " \t")) + 1
	return Pos{name, line, col}, "not YAML: " + m[2]
}
