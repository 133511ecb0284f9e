package catalog

// LaneBlock is a BackendBlock of a family whose cases say over which lane their data move.
type LaneBlock interface {
	BackendBlock
	// Moves says what moves over which lanes.
	Moves() Moves
}

// Moves is what a backend moves between two ranks, and over which lanes.
type Moves struct {
	What    string // such as transfers
	Lanes   []Lane
	Handles []Handle // by which a rank opens the other one's memory; empty: in the backend's own way
}

// Lane is a lane of a backend.
type Lane struct {
	Name  string
	Lacks string // why nothing of the backend runs on it; empty: it runs
}

// Handle is a handle of memory, and the vendors of the devices whose memory it opens.
type Handle struct {
	Name    string   `yaml:",name" in:"handle"`
	Vendors []string `yaml:",value" in:"vendor"`
}

// Moves returns what the backend moves over lanes, nil if nothing.
func (b *Backend) Moves() *Moves {
	for _, f := range families.All() {
		if block, ok := b.Blocks[f.Name].(LaneBlock); ok {
			moves := block.Moves()
			return &moves
		}
	}
	return nil
}
