package toy

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// ball is the backend: processes of a host that throw through their store. Its library is a file
// with its version.
var ball = backend.Backend{
	Name: "ball", Open: map[plan.Family]rank.Opener{Name: open},
	Needs: []*backend.Need{{Kind: "ball", Label: "Ball", Variable: ballVariable, Find: findBall}},
}

// ballVariable names the library.
const ballVariable = "CX_TOY_BALL"

func findBall(context.Context) backend.Library {
	version, err := os.ReadFile(os.Getenv(ballVariable))
	if err != nil {
		return backend.Library{Err: fmt.Errorf("no ball: set %s to the file of one", ballVariable)}
	}
	return backend.Library{Version: strings.TrimSpace(string(version))}
}

func open(ctx context.Context, _ *rank.Session, _ plan.Case) (rank.Runner, error) {
	l := findBall(ctx)
	if !l.Found() {
		return nil, rank.Coded(result.ReasonNoLibrary, l.Err)
	}
	return runner{player{l.Version}}, nil
}

// player implements thrower.
type player struct{ version string }

// Facts implements thrower.
func (p player) Facts() rank.Facts {
	return rank.Facts{
		DeviceProduct: "Toy", Framework: "host", AcceleratorRuntime: "host", NUMANode: -1,
		Library: rank.Library{Kind: "ball", Version: p.version},
	}
}

// Throw implements thrower.
func (player) Throw(ctx context.Context, s *rank.Session, key string, further int, message []byte) ([]byte, error) {
	all, err := rank.Gather(ctx, s, key, message)
	if err != nil {
		return nil, err
	}
	return all[(s.Rank-further+s.World)%s.World], nil
}
