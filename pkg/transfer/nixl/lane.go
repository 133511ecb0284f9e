package nixl

/*
#include <stdio.h>

// UCX writes its log through a stream of the C library.
static int cx_flush_all(void) { return fflush(NULL); }
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// transports are what UCX may use on a lane. Its cma and cuda_ipc need tcp to connect, and
// memory of GPUs needs cuda_copy.
var transports = map[string]string{vocab.LaneProcessVM: "cma,tcp", vocab.LaneTCP: "tcp", vocab.LanePeer: "cuda_ipc,cuda_copy,tcp"}

// laneOf is the lane of a transport of UCX.
var laneOf = map[string]string{
	"cma": vocab.LaneProcessVM, "tcp": vocab.LaneTCP, "cuda_ipc": vocab.LanePeer,
	"posix": vocab.LaneSharedMemory, "sysv": vocab.LaneSharedMemory, "xpmem": vocab.LaneSharedMemory,
}

// ucxLog is what UCX writes to: memory that goes with the process. It is private.
type ucxLog struct{ file *os.File }

// configure has UCX, which is not loaded yet, use one lane between processes of this host,
// and write down which transports it uses. UCX handles no signals.
func configure(lane string) (*ucxLog, error) {
	for _, name := range []string{"UCX_TLS", "UCX_NET_DEVICES"} {
		if value, ok := os.LookupEnv(name); ok {
			return nil, rank.Refused("%s=%s: the lane of the case decides what UCX uses: unset it", name, value)
		}
	}
	fd, err := unix.MemfdCreate("cxrun-ucx-log", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for the log of UCX: %w", err)
	}
	l := &ucxLog{os.NewFile(uintptr(fd), "log of UCX")}
	for name, value := range map[string]string{
		"UCX_TLS": transports[lane], "UCX_NET_DEVICES": "lo", "UCX_PROTO_INFO": "y", "UCX_LOG_FILE": l.path(),
		"UCX_DEBUG_SIGNO": "0", "UCX_HANDLE_ERRORS": "none",
	} {
		if err := os.Setenv(name, value); err != nil {
			return nil, errors.Join(err, l.file.Close())
		}
	}
	return l, nil
}

func (l *ucxLog) path() string { return fmt.Sprintf("/proc/self/fd/%d", l.file.Fd()) }

// lanes returns the lanes of the operations between memory of GPUs, or between memory of
// hosts, joined by "+", as UCX wrote them down.
func (l *ucxLog) lanes(ops []string, onDevices bool) (string, error) {
	C.cx_flush_all()
	text, err := os.ReadFile(l.path())
	if err != nil {
		return "", err
	}
	return lanesIn(string(text), ops, onDevices), nil
}

// lastError returns the last error that UCX wrote down, or "".
func (l *ucxLog) lastError() string {
	C.cx_flush_all()
	text, err := os.ReadFile(l.path())
	if err != nil {
		return ""
	}
	found := ucxError.FindAllStringSubmatch(string(text), -1)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1][1]
}

var (
	ucxError = regexp.MustCompile(`(?m) ERROR +(.*)$`)
	// sizeRange is the first cell of a row of a table, such as 0..8184 or 8185..inf.
	sizeRange = regexp.MustCompile(`^\d+(\.\.(\d+|inf))?$`)
	// transport is a transport with its device, such as tcp/lo or rc_mlx5/mlx5_0:1.
	transport = regexp.MustCompile(`([a-z][a-z0-9_]*)/`)
)

// calls are the functions of UCX by operation.
var calls = map[string]string{vocab.Pull: "ucp_get", vocab.Push: "ucp_put"}

// unknown is the lane of an operation of which UCX wrote nothing down, or of a transport
// without a lane.
const unknown = "unknown"

// lanesIn reads UCX's tables of protocols. Each has a title with the two ends, one with the
// operation, and a row for each range of sizes, whose last cell has the transports:
//
//	| rank-1 intra-node cfg#1                                         |
//	| remote memory read by ucp_get*(multi) into host memory from host |
//	| Range  | Description |                  Config                   |
//	| 0..inf | zero-copy   | cma/memory                                |
//
// Where GPUs are, UCX also makes tables of operations that nobody asked for, from memory of
// the host to both kinds and over tcp. An operation between GPUs has none of the host's:
//
//	| remote memory read by ucp_get*(multi) into cuda/GPU1 from cuda/dev[2] |
func lanesIn(text string, ops []string, onDevices bool) string {
	ofHost := 2
	if onDevices {
		ofHost = 0
	}

	found := map[string][]string{} // by function of UCX
	peer, call := false, ""
	for line := range strings.Lines(text) {
		_, row, ok := strings.Cut(line, " | ")
		if !ok {
			continue
		}
		cells := strings.Split(strings.TrimRight(row, " |\n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) == 1 && strings.Contains(cells[0], " cfg#"):
			peer, call = !strings.Contains(cells[0], " self cfg#"), ""
		case len(cells) == 1:
			call = ""
			for _, c := range calls {
				if peer && strings.Contains(cells[0], c) && strings.Count(cells[0], "host") == ofHost {
					call = c
				}
			}
		case call != "" && sizeRange.MatchString(cells[0]):
			for _, m := range transport.FindAllStringSubmatch(cells[len(cells)-1], -1) {
				found[call] = append(found[call], m[1])
			}
		}
	}
	var lanes []string
	for _, op := range ops {
		used := found[calls[op]]
		if len(used) == 0 {
			used = []string{""}
		}
		for _, t := range used {
			lane, ok := laneOf[t]
			if prefix, _, _ := strings.Cut(t, "_"); prefix == "rc" || prefix == "dc" || prefix == "ud" {
				lane, ok = vocab.LaneRDMA, true
			}
			if !ok {
				lane = unknown
			}
			lanes = append(lanes, lane)
		}
	}
	slices.Sort(lanes)
	return strings.Join(slices.Compact(lanes), "+")
}
