package fold

import (
	"errors"
	"path/filepath"
	"regexp"
	"time"

	"github.com/collectivex/collectivex/pkg/strictjson"
)

// documentName matches names from result.FileName: case id, time left (in newer ones), time, position.
var documentName = regexp.MustCompile(`^(.+)_(?:[0-9]{15}-)?([0-9]{8}T[0-9]{6}\.[0-9]{3}Z)-c[0-9]{3,}\.json$`)

// replaced reports whether p is a torn document of a case with a newer document that counts.
func (p *Problem) replaced(answers map[Case]*Answer) bool {
	name := documentName.FindStringSubmatch(filepath.Base(p.Source))
	if name == nil || !errors.Is(p.Err, strictjson.ErrTruncated) {
		return false
	}
	torn, err := time.Parse("20060102T150405.000Z", name[2])
	if err != nil {
		return false
	}
	for _, a := range answers {
		if a.ID == name[1] && a.at.After(torn) {
			return true
		}
	}
	return false
}
