package catalog

// LaneBlock is a BackendBlock of a family whose cases name the lane of their data.
type LaneBlock interface {
	BackendBlock
	// Moves returns what is moved, and over which lanes.
	Moves() Moves
}

// Moves describes what a backend moves between two ranks, and over which lanes.
type Moves struct {
	What    string // such as transfers
	Lanes   []Lane
	Handles []Handle // by which a rank opens the other one's memory; empty: a mechanism of the backend
}

// Lane is a lane of a backend.
type Lane struct {
	Name  string
	Lacks string // why the backend does not run on it; empty: it runs
}

// Handle is a kind of memory handle, and the vendors of devices whose memory it opens.
type Handle struct {
	Name    string   `yaml:",name" in:"handle"`
	Vendors []string `yaml:",value" in:"vendor"`
}

// Moves returns what the backend moves over lanes, or nil.
func (b *Backend) Moves() *Moves {
	for _, f := range families.All() {
		if block, ok := b.Blocks[f.Name].(LaneBlock); ok {
			return new(block.Moves())
		}
	}
	return nil
}
