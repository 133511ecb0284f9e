package pyrank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"unicode"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/pyhost"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Library is a library that adapters, small modules of Python, call in this process. The errors of
// its methods have a reason code.
type Library struct {
	*pyhost.Interpreter
	Name     string // of the backend
	Install  string // what to install if an import fails
	Adapters fs.FS  // their sources, adapters/NAME.py
}

// Open starts the interpreter of python3 on PATH for a backend. The rank has locked its OS thread,
// and its process is used for this library alone.
func Open(ctx context.Context, b *backend.Backend, adapters fs.FS) (*Library, error) {
	l := &Library{Name: b.Name, Install: install(b), Adapters: adapters}
	e, err := pyhost.Find(ctx, command.Host{}, nil)
	if err == nil {
		l.Interpreter, err = pyhost.Start(e)
	}
	if err != nil {
		return nil, rank.Coded(result.ReasonNoLibrary, err)
	}
	return l, nil
}

// install returns what to install for the modules of a backend.
func install(b *backend.Backend) string {
	var all []string
	for _, n := range b.Needs {
		all = append(all, n.Module.Install)
	}
	return strings.Join(all, " and ")
}

// Load runs an adapter as a module, and finds its functions: functions points to a struct whose
// fields are functions, named as in Python but for their case, such as ValuesAt for values_at.
func (l *Library) Load(module, adapter string, functions any) error {
	source, err := fs.ReadFile(l.Adapters, "adapters/"+adapter+".py")
	if err != nil {
		return err
	}
	m, err := l.Interpreter.Load(module, string(source))
	if err != nil {
		return l.Coded(err)
	}
	of := reflect.ValueOf(functions).Elem()
	for i := range of.NumField() {
		f, err := m.Function(snake(of.Type().Field(i).Name))
		if err != nil {
			return l.Coded(err)
		}
		of.Field(i).Set(reflect.ValueOf(f))
	}
	return nil
}

// snake converts a name such as ValuesAt to values_at.
func snake(name string) string {
	var out strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}

// Call calls a function with integers.
func (l *Library) Call(f *pyhost.Function, args ...int64) (int64, error) {
	n, err := f.Call(args...)
	return n, l.Coded(err)
}

// Text calls a function with a string, and returns its result.
func (l *Library) Text(f *pyhost.Function, arg string) (string, error) {
	text, err := f.Text(arg)
	return text, l.Coded(err)
}

// JSON calls a function with arg as JSON, and decodes the JSON that it returns into answer.
func (l *Library) JSON(f *pyhost.Function, arg, answer any) error {
	raw, err := json.Marshal(arg)
	if err != nil {
		return err
	}
	text, err := l.Text(f, string(raw))
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), answer)
}

// Coded adds the reason code to an exception of Python. A failed import is a missing library, an
// adapter's Refused is a refusal, and any other exception is an error of the library, with its type.
// An exception that an error of a callback caused keeps the code of that error.
func (l *Library) Coded(err error) error {
	if _, known := errors.AsType[*rank.Error](err); known {
		return err
	}
	e, ok := errors.AsType[*pyhost.Exception](err)
	switch {
	case !ok, e.Unwrap() != nil:
		return err
	case e.Type == "ModuleNotFoundError" || e.Type == "ImportError":
		remedy := pyhost.Remedy(e.Message)
		if remedy == "" {
			remedy = fmt.Sprintf("install %s in the environment of python3 on PATH; cxrun doctor shows which that is", l.Install)
		}
		return &rank.Error{Reason: result.ReasonNoLibrary.With("%s", e.Type), Err: fmt.Errorf("%s: %s", e.Message, remedy)} // the reason has the type
	case e.Type == "Refused":
		return rank.Refused("%s", e.Message)
	default:
		return &rank.Error{Reason: result.ReasonLibrary.With("%s %s", l.Name, e.Type), Err: err}
	}
}
