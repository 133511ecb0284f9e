package result

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// ErrDigest is wrapped if the digest of a document does not match.
var ErrDigest = errors.New("digest does not match: the document was changed after it was written")

// The digest is the last member of a document: the SHA-256 of all bytes before the comma that precedes
// it.
const (
	digestStart = `,"digest":"` + digestKind
	digestKind  = "sha256:"
	digestEnd   = `"}`
	digestSize  = len(digestStart) + 2*sha256.Size + len(digestEnd)
)

// cutDigest splits a compact document without newline into the digested content and the digest; ok is
// false if it does not end in one.
func cutDigest(line []byte) (content, digest []byte, ok bool) {
	at := len(line) - digestSize
	if at < 0 {
		return line, nil, false
	}
	digest, starts := bytes.CutPrefix(line[at:], []byte(digestStart))
	digest, ends := bytes.CutSuffix(digest, []byte(digestEnd))
	if !starts || !ends {
		return line, nil, false
	}
	return line[:at], digest, true
}

// holds reports whether digest matches content.
func holds(content, digest []byte) bool {
	return string(digest) == digestOf(content)
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// EncodeDocument returns d as one line of compact JSON with a newline, and its digest as the last
// member.
func EncodeDocument(d Document) ([]byte, error) {
	d.Head().Digest = "" // may be set in a document that was read
	line, err := Encode(d)
	if err != nil {
		return nil, err
	}
	content := bytes.TrimSuffix(line, []byte("}\n"))
	digest := digestOf(content)
	return append(content, digestStart+digest+digestEnd+"\n"...), nil
}
