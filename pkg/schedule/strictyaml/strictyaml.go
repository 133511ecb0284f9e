// Package strictyaml reads one YAML document into a Go value and words what is wrong with it for
// people.
package strictyaml

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Decode decodes the only document of data into v. It refuses unknown keys, an empty file and a
// second document. An error is one line.
func Decode(data []byte, v any) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	err := d.Decode(v)
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the file is empty")
	case err != nil:
		return plain(err)
	}
	var second yaml.Node
	switch err := d.Decode(&second); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return plain(err)
	}
	return errors.New("the file has more than one YAML document: keep one")
}

// Line returns the line of a part of the document in data, 0 if there is no such part. The path to it has keys,
// which are strings, and the numbers of items of lists, from 0 on.
func Line(data []byte, path ...any) int {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil || len(document.Content) == 0 {
		return 0
	}
	at, line := document.Content[0], 0
	for _, part := range path {
		if at, line = child(at, part); at == nil {
			return 0
		}
	}
	return line
}

// child is the part of a list or of keys with values, and the line where it or its key begins; nil if there
// is none.
func child(n *yaml.Node, part any) (*yaml.Node, int) {
	i, numbered := part.(int)
	switch {
	case n.Kind == yaml.SequenceNode && numbered && i < len(n.Content):
		return n.Content[i], n.Content[i].Line
	case n.Kind == yaml.MappingNode:
		for at := 0; at+1 < len(n.Content); at += 2 {
			if n.Content[at].Value == part {
				return n.Content[at+1], n.Content[at].Line
			}
		}
	}
	return nil, 0
}

// wordings replace what package yaml says, with Go types, of the first mistake.
var wordings = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`^field (\S+) not found in type \S+$`), `unknown key "$1"`},
	{regexp.MustCompile("^cannot unmarshal !!\\S+ `(.*)` into u?int\\d*$"), `invalid value "$1": want an integer`},
	{regexp.MustCompile("^cannot unmarshal !!\\S+ `(.*)` into float\\d+$"), `invalid value "$1": want a number`},
	{regexp.MustCompile("^cannot unmarshal !!\\S+ `(.*)` into \\[\\].*$"), `invalid value "$1": want a list`},
	{regexp.MustCompile("^cannot unmarshal !!\\S+ `(.*)` into .*$"), `invalid value "$1": want keys with values`},
	{regexp.MustCompile(`^cannot unmarshal !!seq into .*$`), `unexpected list: want a single value or keys with values`},
	{regexp.MustCompile(`^cannot unmarshal !!map into \[\].*$`), `unexpected keys with values: want a list`},
	{regexp.MustCompile(`^cannot unmarshal !!map into .*$`), `unexpected keys with values: want a single value`},
}

// plain returns an error of package yaml in a line: the first mistake, with its line of the file.
func plain(err error) error {
	var mistakes *yaml.TypeError
	if !errors.As(err, &mistakes) {
		return errors.New(strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
	}
	place, what, _ := strings.Cut(strings.Join(strings.Fields(mistakes.Errors[0]), " "), ": ")
	for _, w := range wordings {
		if w.from.MatchString(what) {
			what = w.from.ReplaceAllString(what, w.to)
			break
		}
	}
	return errors.New(place + ": " + what)
}
