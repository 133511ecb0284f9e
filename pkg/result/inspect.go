package result

import (
	"bytes"
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
	Head     Head
	Document Document
	// Line is the document as compact JSON, without newline. It is valid until the next document is
	// inspected.
	Line []byte
}

// Inspector decides whether data is an acceptable document, for aggregate, summarize and --resume. It is for one
// goroutine.
type Inspector struct{ strings *strictjson.Strings }

// NewInspector returns an inspector that passes every potentially private string to screen; an error of
// screen refuses the document.
func NewInspector(screen func(text string) error) *Inspector {
	return &Inspector{strictjson.NewStrings(screen)}
}

// Inspect returns the document in data, or why it is refused. Every document must satisfy its schema and the
// validator, and a digest, if there is one, must match. A digest proves only that nothing was changed since
// somebody made it, not that the document is consistent. The error wraps strictjson.ErrTruncated,
// strictjson.ErrSyntax, ErrForeign, ErrInvalid, ErrDigest or the screen's error.
func (x *Inspector) Inspect(data []byte) (Inspected, error) {
	text := bytes.TrimSpace(data)
	d, compact, err := x.judged(text)
	if !compact {
		var refused error
		text, refused = strictjson.Screen(text, x.strings)
		if errors.Is(refused, strictjson.ErrForm) {
			refused = fmt.Errorf("%w: %w", ErrForeign, refused)
		}
		if refused != nil {
			return Inspected{}, refused
		}
	}
	d.Line = text
	content, digest, sealed := cutDigest(text)
	switch {
	case sealed && holds(content, digest):
	case sealed && err != nil:
		err = fmt.Errorf("%w; %w", ErrDigest, err)
	case sealed, err == nil && d.Document.Head().Digest != "": // the digest is not at the end
		err = ErrDigest
	}
	if err != nil {
		return Inspected{}, err
	}
	return d, nil
}

// judged returns a document after checking it against schema and validator. compact is false if its text has white
// space around tokens, or was not read as a whole.
func (x *Inspector) judged(text []byte) (d Inspected, compact bool, err error) {
	k, err := kindOf(text)
	if err != nil {
		return d, false, err
	}
	doc, compact, err := k.read(text, x.strings)
	if err != nil {
		return d, false, invalid(err)
	}
	d = Inspected{Head: headOf(doc.Head()), Document: doc}
	if err := d.Head.known(); err != nil {
		return d, false, err
	}
	if err := judgeRead(doc); err != nil {
		return d, compact, invalid(err)
	}
	return d, compact, nil
}

// judgeRead judges a document that was read. It returns an error if that panics: families compute
// with the values of a case, such as a world of 0, of which the schema knows the types only.
func judgeRead(doc Document) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("document of case %s: a value makes it impossible to check: %v", doc.Head().Identity.CaseID, p)
		}
	}()
	return judge(doc, false)
}

// invalid adds ErrInvalid to an error for a document of this program, unless its text is damaged.
func invalid(err error) error {
	if errors.Is(err, strictjson.ErrTruncated) || errors.Is(err, strictjson.ErrSyntax) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}

func headOf(e *Envelope) Head {
	a := e.Identity.AllocationFactors
	return Head{
		Version: e.Version, RecordType: e.RecordType, GeneratedAt: e.GeneratedAt,
		CaseID: e.Identity.CaseID, Ordinal: e.Identity.AttemptOrdinal,
		RunID: Text(a.RunID), RunAttempt: Text(a.RunAttempt),
		SourceSHA: Text(a.SourceSHA), MatrixSHA256: a.MatrixSHA256,
		Status: e.Outcome.Status, Reasons: e.Outcome.Reasons,
	}
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
