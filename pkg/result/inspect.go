package result

import (
	"errors"
	"fmt"
	"time"

	"github.com/collectivex/collectivex/pkg/strictjson"
)

// MaxDocument is the maximum size of a document, in bytes. Readers of the artifacts accept 64 MiB for all
// documents of a cell.
const MaxDocument = 64 << 20

// ErrInvalid is wrapped if a document violates its schema, or is inconsistent.
var ErrInvalid = errors.New("invalid document")

// Head is the part of a document that gates read.
type Head struct {
	Version     int
	RecordType  string
	GeneratedAt string
	CaseID      string
	Ordinal     int
	RunID       string
	RunAttempt  string
	SourceSHA   string
	// MatrixSHA256 is empty if the document names no matrix.
	MatrixSHA256 string
	Status       string
	Reasons      Reasons
}

// Inspected is an accepted document.
type Inspected struct {
	Head Head
	// Line is the document as compact JSON, without newline. It is valid until the next document is
	// inspected.
	Line []byte

	kind *kind
	doc  Document // nil if a valid digest made decoding unnecessary
}

// Document returns the whole document.
func (d *Inspected) Document() (Document, error) {
	if d.doc != nil {
		return d.doc, nil
	}
	return d.kind.read(d.Line)
}

// Inspector decides whether data is an acceptable document, for aggregate, summarize and --resume. It
// caches strings that it has seen; it is for one goroutine.
type Inspector struct {
	screen   func(text string) error
	harmless map[string]struct{} // strings that passed the screen
}

// NewInspector returns an inspector that passes every potentially private string to screen; an error of
// screen refuses the document.
func NewInspector(screen func(text string) error) *Inspector {
	return &Inspector{screen: screen, harmless: map[string]struct{}{}}
}

// Inspect returns the document in data, or why it is refused. A document with a matching digest is
// unchanged since this program validated and wrote it, so only its head is read. Any other is checked
// against schema and validator; a digest that does not match is always refused. The error wraps
// strictjson.ErrTruncated, strictjson.ErrSyntax, ErrForeign, ErrInvalid, ErrDigest or the screen's error.
func (x *Inspector) Inspect(data []byte) (Inspected, error) {
	text, err := strictjson.Screen(data, x.check)
	if err != nil {
		return Inspected{}, foreign(err)
	}
	d, err := inspectHead(text)
	content, digest, sealed := cutDigest(text)
	if sealed && holds(content, digest) {
		return d, err
	}
	if err == nil {
		d.doc, err = d.kind.judged(text)
	}
	switch {
	case err != nil && sealed:
		err = fmt.Errorf("%w; %w", ErrDigest, err)
	case sealed, err == nil && d.doc.Head().Digest != "": // the digest is not at the end
		err = ErrDigest
	}
	if err != nil {
		return Inspected{}, err
	}
	return d, nil
}

// check screens one raw string. Most strings of a run are repeated, so accepted ones are cached, up to a
// limit.
func (x *Inspector) check(raw []byte) error {
	if _, ok := x.harmless[string(raw)]; ok {
		return nil
	}
	if err := x.screen(strictjson.Unquote(raw)); err != nil {
		return err
	}
	if len(raw) <= 64 {
		if len(x.harmless) == 4096 { // full of strings that only one document has, such as its case id
			clear(x.harmless)
		}
		x.harmless[string(raw)] = struct{}{}
	}
	return nil
}

// inspectHead inspects only the head.
func inspectHead(text []byte) (Inspected, error) {
	h, err := readHeads(text)
	if err != nil {
		return Inspected{}, err
	}
	k, err := h.kind()
	if err != nil {
		return Inspected{}, err
	}
	a := h.Identity.AllocationFactors
	d := Inspected{Line: text, kind: k, Head: Head{
		Version: h.Version, RecordType: h.RecordType, GeneratedAt: h.GeneratedAt,
		CaseID: h.Identity.CaseID, Ordinal: h.Identity.AttemptOrdinal,
		RunID: orEmpty(a.RunID), RunAttempt: orEmpty(a.RunAttempt),
		SourceSHA: orEmpty(a.SourceSHA), MatrixSHA256: a.MatrixSHA256,
		Status: h.Outcome.Status, Reasons: h.Outcome.Reasons,
	}}
	return d, d.Head.known()
}

// judged returns a document after checking it against schema and validator.
func (k *kind) judged(text []byte) (Document, error) {
	d, err := k.read(text)
	if err == nil {
		err = k.form.Check(text)
	}
	if err == nil {
		err = judge(d, false)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return d, nil
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// known returns an error unless a run of this program can have written the head. The caller knows its kind.
func (h Head) known() error {
	if h.CaseID == "" || h.Ordinal < 1 || h.Status == "" {
		return fmt.Errorf("%w: no identity.case_id, identity.attempt_ordinal or outcome.status", ErrForeign)
	}
	if _, err := time.Parse(time.RFC3339, h.GeneratedAt); err != nil {
		return fmt.Errorf("%w: generated_at: %w", ErrForeign, err)
	}
	return h.closed()
}
