package workflow

import (
	"bytes"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// The workflow is built of yaml.Nodes: they keep the order of keys, a bare "on"
// and the comments that tell the tag of a pinned commit.

func scalar(value any) *yaml.Node {
	var n yaml.Node
	if err := n.Encode(value); err != nil {
		panic(err) // only strings, numbers and booleans come here
	}
	return &n
}

// script is the body of a run step, as a literal block.
func script(lines ...string) *yaml.Node {
	n := scalar(strings.Join(lines, "\n") + "\n")
	n.Style = yaml.LiteralStyle
	return n
}

func commented(n *yaml.Node, comment string) *yaml.Node {
	n.LineComment = "# " + comment
	return n
}

func list[T any](values []T) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, v := range values {
		n.Content = append(n.Content, node(v))
	}
	return n
}

// mapping makes a mapping of keys and values in turn.
func mapping(pairs ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	if len(pairs) == 0 {
		n.Style = yaml.FlowStyle // {}
	}
	for pair := range slices.Chunk(pairs, 2) {
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: pair[0].(string)}, node(pair[1]))
	}
	return n
}

func node(v any) *yaml.Node {
	switch v := v.(type) {
	case *yaml.Node:
		return v
	case []string:
		return list(v)
	default:
		return scalar(v)
	}
}

func encode(n *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return nil, err
	}
	return out.Bytes(), e.Close()
}
