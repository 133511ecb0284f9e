package result

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/collectivex/collectivex/pkg/strictjson"
)

// MaxDocument is the largest document that is read, in bytes. Readers of the
// artifacts take 64 MiB for all documents of a cell.
const MaxDocument = 64 << 20

// ErrInvalid is wrapped where a document is not of its schema, or says what cannot
// be.
var ErrInvalid = errors.New("invalid document")

// Head is what a gate reads of every document.
type Head struct {
	Version     int
	RecordType  string
	GeneratedAt string
	CaseID      string
	Ordinal     int
	RunID       string
	RunAttempt  string
	SourceSHA   string
	// MatrixSHA256 is empty where the document names no matrix.
	MatrixSHA256 string
	Status       string
	Reasons      Reasons
}

// Inspected is a document that counts.
type Inspected struct {
	Head Head
	// Line is the document as compact JSON, without newline. It is valid until the
	// next document is inspected.
	Line []byte

	doc Document // nil where its digest vouched for it
}

// Document returns the whole document.
func (d *Inspected) Document() (Document, error) {
	if d.doc != nil {
		return d.doc, nil
	}
	return Decode(d.Line)
}

// Inspector decides whether bytes are a document that counts. aggregate, summarize
// and --resume all ask it. It remembers what it saw of strings; one goroutine uses
// it.
type Inspector struct {
	// Whole has documents decoded while they are inspected, for those who ask each
	// one for its Document. It decides nothing.
	Whole bool

	screen   func(text string) error
	harmless map[string]struct{} // strings that passed the screen
	buf      []byte
}

// NewInspector returns an inspector that shows every string which could be private
// to screen; the error of screen refuses the document.
func NewInspector(screen func(text string) error) *Inspector {
	return &Inspector{screen: screen, harmless: map[string]struct{}{}}
}

// Inspect returns the document in data, or why it does not count. A document whose
// digest holds is as it was when this program validated and wrote it, so that its
// head is enough. Any other is held to schema and validator; one whose digest does
// not hold is refused in any case. The error wraps strictjson.ErrTruncated,
// strictjson.ErrSyntax, ErrForeign, ErrInvalid, ErrDigest or what the screen
// returned.
func (x *Inspector) Inspect(data []byte) (Inspected, error) {
	text := bytes.TrimSpace(data)
	if _, _, sealed := cutDigest(text); !sealed {
		return x.whole(text)
	}
	d, err := x.sealed(text)
	if err != nil {
		return Inspected{}, err
	}
	if content, digest, _ := cutDigest(d.Line); holds(content, digest) {
		return d, nil
	}
	if _, err = x.whole(text); !errors.Is(err, ErrDigest) {
		err = fmt.Errorf("%w; %w", ErrDigest, err)
	}
	return Inspected{}, err
}

func (x *Inspector) input(text []byte, strict bool) strictjson.Input {
	return strictjson.Input{Text: text, Buffer: x.buf, Screen: x.check, Strict: strict}
}

// keep keeps the buffer of a line that was compacted.
func (x *Inspector) keep(line, text []byte) {
	if len(line) > 0 && &line[0] != &text[0] {
		x.buf = line
	}
}

// check screens one raw string. Most strings of a run are the same few, so what
// passed once is remembered, up to a bound.
func (x *Inspector) check(raw []byte) error {
	if _, ok := x.harmless[string(raw)]; ok {
		return nil
	}
	if err := x.screen(strictjson.Unquote(raw)); err != nil {
		return err
	}
	if len(raw) <= 64 {
		if len(x.harmless) == 4096 { // of texts that one document has, such as its case id
			clear(x.harmless)
		}
		x.harmless[string(raw)] = struct{}{}
	}
	return nil
}

// heads is the members that make a Head.
type heads struct {
	Version     int    `json:"version"`
	RecordType  string `json:"record_type"`
	GeneratedAt string `json:"generated_at"`
	Identity    struct {
		CaseID            string            `json:"case_id"`
		AttemptOrdinal    int               `json:"attempt_ordinal"`
		AllocationFactors AllocationFactors `json:"allocation_factors"`
	} `json:"identity"`
	Outcome Outcome `json:"outcome"`
	Digest  string  `json:"digest"`
}

var headForm = strictjson.New(heads{}, strictjson.Types{})

// sealed inspects a document for whose content a digest vouches.
func (x *Inspector) sealed(text []byte) (Inspected, error) {
	if !x.Whole {
		return x.head(text)
	}
	kind, err := kindOf(text)
	if err != nil {
		return Inspected{}, err
	}
	doc, line, err := kind.read(x.input(text, false))
	if errors.Is(err, strictjson.ErrForm) { // its figures cannot be read: see Document
		return x.head(text)
	}
	if err != nil {
		return Inspected{}, err
	}
	x.keep(line, text)
	d := Inspected{Head: headOf(doc.Head()), Line: line, doc: doc}
	return d, d.Head.known()
}

// head inspects no more than the head.
func (x *Inspector) head(text []byte) (Inspected, error) {
	var h heads
	line, err := headForm.Read(x.input(text, false), &h)
	if errors.Is(err, strictjson.ErrForm) {
		err = fmt.Errorf("%w: %w", ErrForeign, err)
	}
	if err != nil {
		return Inspected{}, err
	}
	x.keep(line, text)
	e := Envelope{Version: h.Version, RecordType: h.RecordType, GeneratedAt: h.GeneratedAt, Outcome: h.Outcome}
	e.Identity.CaseID, e.Identity.AttemptOrdinal, e.Identity.AllocationFactors = h.Identity.CaseID, h.Identity.AttemptOrdinal, h.Identity.AllocationFactors
	d := Inspected{Head: headOf(&e), Line: line}
	return d, d.Head.known()
}

// whole inspects all of a document.
func (x *Inspector) whole(text []byte) (Inspected, error) {
	kind, err := kindOf(text)
	if err != nil {
		return Inspected{}, err
	}
	d, line, err := kind.read(x.input(text, true))
	if errors.Is(err, strictjson.ErrForm) {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err != nil {
		return Inspected{}, err
	}
	x.keep(line, text)
	if err := judge(d, false); err != nil {
		return Inspected{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if d.Head().Digest != "" {
		if content, digest, sealed := cutDigest(line); !sealed || !holds(content, digest) {
			return Inspected{}, ErrDigest
		}
	}
	in := Inspected{Head: headOf(d.Head()), Line: line, doc: d}
	return in, in.Head.known()
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

// known returns an error unless the head is that of a document that a run of
// this program leaves.
func (h Head) known() error {
	if _, err := kindsNamed(h.Version, h.RecordType); err != nil {
		return err
	}
	if h.CaseID == "" || h.Ordinal < 1 || h.Status == "" {
		return fmt.Errorf("%w: no identity.case_id, identity.attempt_ordinal or outcome.status", ErrForeign)
	}
	if _, err := time.Parse(time.RFC3339, h.GeneratedAt); err != nil {
		return fmt.Errorf("%w: generated_at: %w", ErrForeign, err)
	}
	return h.closed()
}
