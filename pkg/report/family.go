package report

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
)

// Series returns the chart series of a document, of any outcome.
func Series(d result.Document) []figure.Series {
	f := family.Find(d.Head().Identity.Case.Family)
	return figure.SeriesOf(f.Views, f.Rows(d))
}

// MarshalJSON writes the lists of headlines after the other members.
func (s *Summary) MarshalJSON() ([]byte, error) {
	type others Summary // without this method
	text, err := result.Encode((*others)(s))
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSuffix(bytes.TrimSpace(text), []byte{'}'})
	for _, f := range family.All() {
		for _, name := range f.Summary.Lists {
			list, err := json.Marshal(s.Headlines[name])
			if err != nil {
				return nil, err
			}
			text = fmt.Appendf(text, ",%q:%s", name, list)
		}
	}
	return append(text, '}'), nil
}
