package fold

import "strconv"

// document reads one document and fills h from it.
func (s *scanner) document(h *Head) error {
	return s.object(func(key []byte) error {
		switch string(key) {
		case `"version"`:
			return s.integer(&h.Version)
		case `"record_type"`:
			return s.word(&h.RecordType)
		case `"generated_at"`:
			return s.word(&h.GeneratedAt)
		case `"identity"`:
			return s.inside(func(key []byte) error { return s.identity(key, h) })
		case `"outcome"`:
			return s.inside(func(key []byte) error { return s.outcome(key, h) })
		default:
			return s.skip()
		}
	})
}

func (s *scanner) identity(key []byte, h *Head) error {
	switch string(key) {
	case `"case_id"`:
		return s.word(&h.CaseID)
	case `"attempt_ordinal"`:
		return s.integer(&h.Ordinal)
	case `"allocation_factors"`:
		return s.inside(func(key []byte) error {
			switch string(key) {
			case `"run_id"`:
				return s.word(&h.RunID)
			case `"run_attempt"`:
				return s.word(&h.RunAttempt)
			case `"source_sha"`:
				return s.word(&h.SourceSHA)
			case `"matrix_sha256"`:
				return s.word(&h.MatrixSHA256)
			default:
				return s.skip()
			}
		})
	default:
		return s.skip()
	}
}

func (s *scanner) outcome(key []byte, h *Head) error {
	switch string(key) {
	case `"status"`:
		return s.word(&h.Status)
	case `"reasons"`:
		if s.peek() != '[' {
			return s.skip()
		}
		h.Reasons = nil
		return s.array(func() error {
			var r string
			if err := s.word(&r); err != nil {
				return err
			}
			h.Reasons = append(h.Reasons, r)
			return nil
		})
	default:
		return s.skip()
	}
}

// inside reads an object, and any other value as if it had no members.
func (s *scanner) inside(member func(key []byte) error) error {
	if s.peek() != '{' {
		return s.skip()
	}
	return s.object(member)
}

// word reads a value and stores it if it is a string.
func (s *scanner) word(to *string) error {
	if s.peek() != '"' {
		return s.skip()
	}
	raw, err := s.str()
	if err == nil {
		*to = unquote(raw)
	}
	return err
}

// integer reads a value and stores it if it is an integer.
func (s *scanner) integer(to *int) error {
	s.space()
	start := s.at
	if err := s.skip(); err != nil {
		return err
	}
	if n, err := strconv.Atoi(string(s.in[start:s.at])); err == nil {
		*to = n
	}
	return nil
}
