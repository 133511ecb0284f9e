package result

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/collectivex/collectivex/pkg/strictjson"
)

// Enclose returns v, an object that begins as the JSON of `cxrun bench` does, as one line of JSON. Its last
// member, documents, has the given documents as EncodeDocument writes them.
func Enclose(v any, documents []Document) ([]byte, error) {
	text, err := Encode(v)
	if err != nil {
		return nil, err
	}
	text = append(bytes.TrimSuffix(text, []byte("}\n")), `,"documents":[`...)
	for i, d := range documents {
		line, err := EncodeDocument(d)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, bytes.TrimSpace(line)...)
	}
	return append(text, "]}\n"...), nil
}

// enclosing begins the JSON of `cxrun bench`, and no document.
var enclosing = []byte(`{"version":1,"program":`)

// Enclosed returns the documents in the JSON of `cxrun bench`, nil if text is something else. JSON of earlier
// versions has none, which is an error that wraps ErrForeign.
func Enclosed(text []byte) ([]jsontext.Value, error) {
	if !bytes.HasPrefix(text, enclosing) {
		return nil, nil
	}
	var report struct {
		Documents []jsontext.Value `json:"documents"`
	}
	text, err := strictjson.Screen(text, nil)
	if err == nil {
		err = strictjson.Unmarshal(text, &report)
	}
	if err != nil {
		return nil, err
	}
	if len(report.Documents) == 0 {
		return nil, fmt.Errorf("%w: JSON of 'cxrun bench' without documents; measure again with this version, and -J", ErrForeign)
	}
	return report.Documents, nil
}
