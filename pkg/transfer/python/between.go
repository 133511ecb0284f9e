package python

import (
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// efa is what libfabric and Mooncake call AWS's adapters.
const efa = "efa"

// givenTo returns what the adapter of a rank needs for a case.
func givenTo(s *rank.Session, c *plan.Case) (given, error) {
	t := transfer.Of(c)
	to := given{Rank: s.Rank, Device: s.LocalRank, Lane: t.Mode, Protocol: t.Mode, Address: "127.0.0.1"}
	if !vocab.BetweenNodes(t.Mode) {
		return to, nil
	}
	if os.Getenv("FI_PROVIDER") == efa {
		to.Protocol = efa
	}
	to.Filter = strings.ReplaceAll(t.Device, "{gpu}", strconv.Itoa(physical(s.LocalRank)))
	var err error
	to.Address, err = address()
	return to, err
}

// physical returns the number on its node of a device of this process, which sees some of them.
func physical(device int) int {
	for _, name := range []string{"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"} {
		if visible := strings.Split(os.Getenv(name), ","); device < len(visible) {
			if n, err := strconv.Atoi(strings.TrimSpace(visible[device])); err == nil {
				return n
			}
		}
	}
	return device
}

// address returns the IPv4 address at which other nodes reach this one: of the operator's
// network.socket_interface, or of the default route.
func address() (string, error) {
	name, chosen := strings.CutPrefix(os.Getenv("NCCL_SOCKET_IFNAME"), "=")
	if !chosen {
		to, err := net.Dial("udp4", "192.0.2.1:9") // sends nothing
		if err != nil {
			return "", rank.Refused("this node has no default route, over which the ranks could connect: set network.socket_interface of the operator file")
		}
		defer to.Close()
		return to.LocalAddr().(*net.UDPAddr).IP.String(), nil
	}
	var addresses []net.Addr
	i, err := net.InterfaceByName(name)
	if err == nil {
		addresses, err = i.Addrs()
	}
	at := slices.IndexFunc(addresses, func(a net.Addr) bool {
		of, ok := a.(*net.IPNet)
		return ok && of.IP.To4() != nil
	})
	if err != nil || at < 0 {
		return "", rank.Refused("network.socket_interface has no IPv4 address on this node: name an interface that has one")
	}
	return addresses[at].(*net.IPNet).IP.String(), nil
}
