package strictyaml

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

func (d *Decoder) word(at Pos, word, kind string) {
	if d.Word != nil {
		d.Word(at, word, kind)
	}
}

// show returns text, which contains a value, or instead if values are private.
func (d *Decoder) show(text, instead string) string {
	if d.Private {
		return instead
	}
	return text
}

// Quote quotes a value in a message, unless values are private.
func (d *Decoder) Quote(value string) string { return d.show(strconv.Quote(value), "the value") }

func (d *Decoder) number(n *yaml.Node) string { return d.show(n.Value, "this one") }

// scalar decodes a word, a number or a truth value, and reports whether it is one.
func (d *Decoder) scalar(n *yaml.Node, v reflect.Value, f field) bool {
	tag := ""
	if n.Kind == yaml.ScalarNode {
		tag = n.ShortTag()
	}
	switch v.Kind() {
	case reflect.String:
		return d.text(n, tag, v, f)
	case reflect.Bool:
		if tag != "!!bool" {
			return d.mustBe("true or false", n, f)
		}
		v.SetBool(n.Value == "true")
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return d.integer(n, tag, v, f)
	case reflect.Float64:
		x, err := strconv.ParseFloat(n.Value, 64)
		if tag != "!!int" && tag != "!!float" || err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
			return d.mustBe("a number", n, f)
		}
		if !d.within(n, x, f) {
			return false
		}
		v.SetFloat(x)
	default:
		panic(fmt.Sprintf("strictyaml: no value is a %s", v.Type()))
	}
	return true
}

// mustBe reports that n is not what was expected, and returns false.
func (d *Decoder) mustBe(what string, n *yaml.Node, f field) bool {
	d.Diagnose(d.at(n), "%s must be %s, not %s", f.what, what, d.describe(n))
	return false
}

func (d *Decoder) text(n *yaml.Node, tag string, v reflect.Value, f field) bool {
	switch {
	case tag != "!!str":
		hint := ""
		if tag != "" && tag != "!!null" {
			hint = "; put it in quotes"
		}
		d.Diagnose(d.at(n), "%s must be a word, not %s%s", f.what, d.describe(n), hint)
		return false
	case strings.TrimSpace(n.Value) == "":
		d.Diagnose(d.at(n), "%s is empty", f.what)
		return false
	}
	v.SetString(n.Value)
	if f.kind != "" {
		d.word(d.at(n), n.Value, f.kind)
	}
	return true
}

// maxInt limits every count, so that products of counts cannot overflow.
const maxInt = 1 << 30

func (d *Decoder) integer(n *yaml.Node, tag string, v reflect.Value, f field) bool {
	if tag != "!!int" {
		return d.mustBe("a whole number", n, f)
	}
	x, err := strconv.ParseInt(n.Value, 10, 64)
	switch {
	case err != nil:
		d.Diagnose(d.at(n), "%s must be a plain decimal number, not %s", f.what, d.number(n))
	case !d.within(n, float64(x), f):
	case v.Kind() == reflect.Uint64 && x < 0:
		d.Diagnose(d.at(n), "%s must not be negative", f.what)
	case v.Kind() == reflect.Uint64:
		v.SetUint(uint64(x))
		return true
	case x > maxInt && v.Kind() == reflect.Int:
		d.Diagnose(d.at(n), "%s must be at most %d, not %s", f.what, maxInt, d.number(n))
	default:
		v.SetInt(x)
		return true
	}
	return false
}

func (d *Decoder) within(n *yaml.Node, x float64, f field) bool {
	if f.min != nil && x < *f.min {
		d.Diagnose(d.at(n), "%s must be at least %s, not %s", f.what, plain(*f.min), d.number(n))
		return false
	}
	if f.max != nil && x > *f.max {
		d.Diagnose(d.at(n), "%s must be at most %s, not %s", f.what, plain(*f.max), d.number(n))
		return false
	}
	return true
}

// plain formats a bound without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// describe returns a description of n for messages, such as "a list".
func (d *Decoder) describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch tag := n.ShortTag(); tag {
	case "!!null":
		return "nothing"
	case "!!str":
		return d.show(strconv.Quote(n.Value), "a word")
	case "!!int", "!!float":
		return d.show("the number "+n.Value, "a number")
	case "!!bool":
		return "the truth value " + n.Value
	default:
		return "a " + strings.TrimPrefix(tag, "!!")
	}
}
