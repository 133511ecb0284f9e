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
	Head     Head
	Document Document
	// Line is the document as compact JSON, without newline. It is valid until the next document is
	// inspected.
	Line []byte
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

// Inspect returns the document in data, or why it is refused. Every document must satisfy its schema and the
// validator, and a digest, if there is one, must match. A digest proves only that nothing was changed since
// somebody made it, not that the document is consistent. The error wraps strictjson.ErrTruncated,
// strictjson.ErrSyntax, ErrForeign, ErrInvalid, ErrDigest or the screen's error.
func (x *Inspector) Inspect(data []byte) (Inspected, error) {
	text, err := strictjson.Screen(data, x.check)
	if errors.Is(err, strictjson.ErrForm) {
		err = fmt.Errorf("%w: %w", ErrForeign, err)
	}
	if err != nil {
		return Inspected{}, err
	}
	d, err := judged(text)
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

// judged returns a document after checking it against schema and validator.
func judged(text []byte) (Inspected, error) {
	k, err := kindOf(text)
	if err != nil {
		return Inspected{}, err
	}
	doc, err := k.read(text)
	if err != nil {
		return Inspected{}, invalid(err)
	}
	d := Inspected{Head: headOf(doc.Head()), Document: doc, Line: text}
	if err := d.Head.known(); err != nil {
		return Inspected{}, err
	}
	if err := judge(doc, false); err != nil {
		return Inspected{}, invalid(err)
	}
	return d, nil
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
		RunID: orEmpty(a.RunID), RunAttempt: orEmpty(a.RunAttempt),
		SourceSHA: orEmpty(a.SourceSHA), MatrixSHA256: a.MatrixSHA256,
		Status: e.Outcome.Status, Reasons: e.Outcome.Reasons,
	}
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
