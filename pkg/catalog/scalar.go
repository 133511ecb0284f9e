package catalog

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/provenance"
)

var nameForm = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)

// name checks a name that the definitions introduce.
func (d *decoder) name(p Pos, name string) {
	if err := CheckName(name); err != nil {
		d.diagnose(p, "%v", err)
	}
}

// CheckName refuses what is no name of a definition.
func CheckName(name string) error {
	switch {
	case !nameForm.MatchString(name):
		return fmt.Errorf("invalid name %q: want lower-case letters and digits, joined by '-' or '.'", name)
	case name == All:
		return fmt.Errorf("invalid name %q: filters use this word to select everything", name)
	}
	return nil
}

// forms is what a word of some kind must look like; other kinds have a list of
// words.
var forms = map[string]*regexp.Regexp{
	"environment variable": regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`),
	"network interface":    deviceForm,
	"rdma device":          deviceForm,
	"host address":         regexp.MustCompile(`^[A-Za-z0-9:][A-Za-z0-9.:-]{0,252}$`),
	"runner label":         regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$`),
	"environment name":     labelForm,
	"absolute path":        regexp.MustCompile(`^/[^\x00-\x1f]*$`),
}

var (
	deviceForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,31}(:[1-9][0-9]*)?$`)
	labelForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
)

// publishedText is the kind of text that documents carry as it is.
const publishedText = "published text"

// word takes note of a word of some kind, or checks its form at once.
func (d *decoder) word(p Pos, word, kind string) {
	switch form := forms[kind]; {
	case kind == publishedText && strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }):
		d.diagnose(p, "%s is copied into documents; write it in printable characters on one line", d.quote(word))
	case kind == publishedText:
		if err := provenance.NewScreen().Check(word); err != nil && !d.private {
			d.diagnose(p, "%s is copied into documents, which could then not be published: it %v", d.quote(word), err)
		}
	case form == nil:
		d.refs = append(d.refs, reference{p, kind, word})
	case !form.MatchString(word):
		d.diagnose(p, "%s is not a valid %s", d.quote(word), kind)
	}
}

// show is text with a value in it, or what messages say instead where values are
// private.
func (d *decoder) show(text, instead string) string {
	if d.private {
		return instead
	}
	return text
}

func (d *decoder) quote(value string) string { return d.show(strconv.Quote(value), "the value") }

func (d *decoder) number(n *yaml.Node) string { return d.show(n.Value, "this one") }

// scalar decodes a word, a number or a truth value, and reports whether it is one.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, f field) bool {
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
	case reflect.Int, reflect.Uint64:
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
		panic(fmt.Sprintf("catalog: a definition cannot hold a %s", v.Type()))
	}
	return true
}

// mustBe says that n is something else than what was expected.
func (d *decoder) mustBe(what string, n *yaml.Node, f field) bool {
	d.diagnose(d.at(n), "%s must be %s, not %s", f.what, what, d.describe(n))
	return false
}

func (d *decoder) text(n *yaml.Node, tag string, v reflect.Value, f field) bool {
	switch {
	case tag != "!!str":
		hint := ""
		if tag != "" && tag != "!!null" {
			hint = "; put it in quotes"
		}
		d.diagnose(d.at(n), "%s must be a word, not %s%s", f.what, d.describe(n), hint)
		return false
	case strings.TrimSpace(n.Value) == "":
		d.diagnose(d.at(n), "%s is empty", f.what)
		return false
	}
	v.SetString(n.Value)
	if f.kind != "" {
		d.word(d.at(n), n.Value, f.kind)
	}
	return true
}

// maxInt bounds every count, so that products of them stay far from overflow.
const maxInt = 1 << 30

func (d *decoder) integer(n *yaml.Node, tag string, v reflect.Value, f field) bool {
	if tag != "!!int" {
		return d.mustBe("a whole number", n, f)
	}
	x, err := strconv.ParseInt(n.Value, 10, 64)
	switch {
	case err != nil:
		d.diagnose(d.at(n), "%s must be a plain decimal number, not %s", f.what, d.number(n))
	case !d.within(n, float64(x), f):
	case v.Kind() == reflect.Uint64 && x < 0:
		d.diagnose(d.at(n), "%s must not be negative", f.what)
	case v.Kind() == reflect.Uint64:
		v.SetUint(uint64(x))
		return true
	case x > maxInt:
		d.diagnose(d.at(n), "%s must be at most %d, not %s", f.what, maxInt, d.number(n))
	default:
		v.SetInt(x)
		return true
	}
	return false
}

func (d *decoder) within(n *yaml.Node, x float64, f field) bool {
	if f.min != nil && x < *f.min {
		d.diagnose(d.at(n), "%s must be at least %s, not %s", f.what, plain(*f.min), d.number(n))
		return false
	}
	if f.max != nil && x > *f.max {
		d.diagnose(d.at(n), "%s must be at most %s, not %s", f.what, plain(*f.max), d.number(n))
		return false
	}
	return true
}

// plain spells a bound without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// describe says what stands there instead of what was expected.
func (d *decoder) describe(n *yaml.Node) string {
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
