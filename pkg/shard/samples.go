package shard

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Raw samples stand beside the documents, under the name of theirs.
const (
	samplesDir    = "samples"
	samplesSuffix = ".ndjson.gz"
)

// sample is one line of a samples file: a family's record of one rank.
type sample struct {
	Rank int             `json:"rank"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data,omitempty"`
}

// writeSamples keeps the family's records of all ranks, which hold numbers
// alone; failures, whose text is private, are not among them. Without a record
// there is no file.
func writeSamples(dir, document string, streams []rank.Stream, screen func([]byte) error) (err error) {
	records := 0
	for _, s := range streams {
		records += len(s.Records)
	}
	if records == 0 {
		return nil
	}
	f, err := result.CreateAtomic(samplesFile(dir, document))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Abort()
		}
	}()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return err
	}
	for _, s := range streams {
		for _, r := range s.Records {
			line, err := json.Marshal(sample{Rank: s.Rank, Kind: r.Kind, Data: r.Data})
			if err != nil {
				return err
			}
			if err := screen(line); err != nil {
				return err
			}
			if _, err := z.Write(append(line, '\n')); err != nil {
				return err
			}
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Commit()
}

// removeSamples removes the samples of a document that was not written.
func removeSamples(dir, document string) { _ = os.Remove(samplesFile(dir, document)) }

func samplesFile(dir, document string) string {
	return filepath.Join(dir, samplesDir, strings.TrimSuffix(document, ".json")+samplesSuffix)
}
