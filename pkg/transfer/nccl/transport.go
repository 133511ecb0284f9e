package nccl

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"sync"

	"github.com/collectivex/collectivex/pkg/memlog"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// logs are the logs of the libraries of this process, by kind. A library reads the variables that
// configure logging only once.
var logs = map[nccl.Kind]func() (*memlog.Log, error){nccl.NCCL: sync.OnceValues(newLog), nccl.RCCL: sync.OnceValues(newLog)}

// newLog makes the library that is opened next log its connections.
func newLog() (*memlog.Log, error) {
	l, err := memlog.New("cxrun-nccl-log")
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT", "NCCL_DEBUG_FILE": l.Path()} {
		if err := os.Setenv(name, value); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

// connection matches a connection in the log of the rank that sends over it, since NCCL 2.8 and in
// RCCL; network connections are logged on both sides:
//
//	host:4711:4712 [0] NCCL INFO Channel 00/1 : 0[0] -> 1[1] via P2P/CUMEM/read
//	host:4711:4712 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
//	host:4711:4712 [0] NCCL INFO Channel 00/1 : 0[0] -> 1[1] [send] via NET/Socket/0
var connection = regexp.MustCompile(`(?m) NCCL INFO Channel \d+(?:/\d+)? : (\d+)\[\w+\] -> \d+\[\w+\](?: \[send\])? via (\w+/\w+)`)

// laneOf maps the library's names of transports to lanes between two ranks of a host. P2P/indirect,
// through a third device, has none.
var laneOf = map[string]string{
	"P2P/direct": vocab.LanePeer, "P2P/IPC": vocab.LanePeer, "P2P/CUMEM": vocab.LanePeer, "P2P/MNNVL": vocab.LanePeer,
	"SHM/direct": vocab.LaneSharedMemory, "SHM/CE": vocab.LaneSharedMemory,
	"NET/Socket": vocab.LaneTCP, "NET/IB": vocab.LaneRDMA,
}

// laneIn returns the transports over which the rank sends according to the log, or the zero Lane if it
// does not send. It does not name an unknown transport, which a plugin may have chosen.
func laneIn(text string, rank int) (lane runner.Lane) {
	for _, m := range connection.FindAllStringSubmatch(text, -1) {
		if m[1] != strconv.Itoa(rank) {
			continue
		}
		if name, ok := laneOf[m[2]]; ok {
			lane.Add(runner.Lane{Name: name, Transport: m[2]})
		} else {
			lane.Add(runner.Lane{Name: runner.UnknownLane})
		}
	}
	return lane
}
