package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/strictjson"
)

// FileName returns the name of a document's file: case id, time of the document and position of the case
// in its shard. Before the time is the time left until the year 10000, so that the newest document of a
// case sorts first: the public dashboard shows the reason of the first failure that it reads.
func FileName(d Document, index int) (string, error) {
	head := d.Head()
	at, err := time.Parse(time.RFC3339, head.GeneratedAt)
	if err != nil {
		return "", fmt.Errorf("generated_at: %w", err)
	}
	left := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() - at.UnixMilli()
	return fmt.Sprintf("%s_%015d-%s-c%03d.json", head.Identity.CaseID, left, at.UTC().Format("20060102T150405.000Z"), index), nil
}

// IsDocumentName reports whether a file of this name in a results directory is a document, and not a
// matrix or a hidden file of another program.
func IsDocumentName(name string) bool {
	return filepath.Ext(name) == ".json" && !strings.HasPrefix(name, ".") && name != plan.FileName
}

// SamplesDir is the directory of raw samples beside documents.
const SamplesDir = "samples"

// SamplesFile returns the path of the raw samples of the document at path: gzipped NDJSON, one rank record
// per line.
func SamplesFile(path string) string {
	return filepath.Join(filepath.Dir(path), SamplesDir, strings.TrimSuffix(filepath.Base(path), ".json")+SamplesSuffix)
}

// SamplesSuffix ends the names of files of raw samples.
const SamplesSuffix = ".ndjson.gz"

// Write writes d into dir atomically and returns the path; index is the position of the case in its shard.
// screen decides whether the bytes of d may be published (see package provenance); if it fails, nothing
// is written. An existing file is an error. Write does not validate d: call Validate first.
func Write(dir string, d Document, index int, screen func([]byte) error) (string, error) {
	data, err := EncodeDocument(d)
	if err != nil {
		return "", err
	}
	if err := screen(data); err != nil {
		return "", fmt.Errorf("document of %s is not published: %w", d.Head().Identity.CaseID, err)
	}
	name, err := FileName(d, index)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("document %s exists already", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return path, safefile.WriteAtomic(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Encode returns v as one line of compact JSON and a newline. Numbers are not rounded; NaN and infinity are
// refused with their path.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		if at := nonFinite(v); at != "" {
			return nil, fmt.Errorf("%s is not a finite number; publish null and a failed check instead", at)
		}
		return nil, err
	}
	return b.Bytes(), nil
}

// nonFinite returns the path of the first NaN or infinity in v, else "".
func nonFinite(v any) string {
	_, err := jsonv2.Marshal(v, jsonv2.Deterministic(true))
	if e, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		return strictjson.Path(e.JSONPointer)
	}
	return ""
}
