package shard

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/safefile"
)

// sample is one line of a samples file: a record of one rank.
type sample struct {
	Rank int             `json:"rank"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data,omitempty"`
}

// writeSamples writes the family's records of all ranks, which contain only numbers. It
// leaves out failures, whose text is private. The file is complete on the disk when it
// returns; the caller commits it after writing its document. It returns nil if there are no
// records.
func writeSamples(dir, document string, streams []rank.Stream, screen func([]byte) error) (_ *safefile.AtomicFile, err error) {
	if !slices.ContainsFunc(streams, func(s rank.Stream) bool { return len(s.Records) > 0 }) {
		return nil, nil
	}
	f, err := safefile.CreateAtomic(result.SamplesFile(filepath.Join(dir, document)))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Abort()
		}
	}()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	for _, s := range streams {
		for _, r := range s.Records {
			line, err := json.Marshal(sample{Rank: s.Rank, Kind: r.Kind, Data: r.Data})
			if err != nil {
				return nil, err
			}
			if err := screen(line); err != nil {
				return nil, err
			}
			if _, err := z.Write(append(line, '\n')); err != nil {
				return nil, err
			}
		}
	}
	if err := errors.Join(z.Close(), f.Sync()); err != nil {
		return nil, err
	}
	return f, nil
}
