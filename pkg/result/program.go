package result

// Program describes a program of explicit steps that was verified before it was run or simulated.
type Program struct {
	// SHA256 is the hexadecimal digest of the program as 'cxrun schedule show' prints it.
	SHA256        string `json:"sha256"`
	Chunks        int    `json:"chunks"`         // of the vector
	ScratchChunks int    `json:"scratch_chunks"` // of each rank
	Streams       int    `json:"streams"`        // of each rank
	Messages      int    `json:"messages"`       // of all ranks
	// SameOrder reports whether all ranks add in the same order, so that a result has the same bits
	// everywhere.
	SameOrder bool `json:"same_order"`
}

// Program checks the values that every program of world ranks has.
func (p *Problems) Program(at string, about *Program, world int) {
	p.Check(len(about.SHA256) == 64 && about.Chunks > 0 && about.ScratchChunks >= 0 && about.Messages >= 0 && about.Streams >= 0,
		"%s describes no program", at)
	p.Check(about.Messages > 0 || world == 1, "%s has no messages between %d ranks", at, world)
}
