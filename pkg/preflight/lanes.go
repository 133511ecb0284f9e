package preflight

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/sysfs"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// lanes returns the lanes over which a backend can move data between two processes or two GPUs of
// this machine, with the handles by which it opens memory of GPUs. notes has a note for each lane and
// handle that it cannot use.
func (e *Examiner) lanes(b *catalog.Backend) (usable []string, notes []Finding) {
	moves := b.Moves()
	if moves == nil {
		return nil, nil
	}
	for _, l := range moves.Lanes {
		lane, why, vendor := l.Name, l.Lacks, ""
		switch {
		case why != "":
		case lane == vocab.LaneProcessVM:
			if err := e.laneError(b, lane); err != nil {
				why = err.Error()
			} else {
				why = processVM(e.root)
			}
		case lane == vocab.LanePeer:
			vendor, why = e.peers(b, lane, 2, "two GPUs")
		case lane == vocab.LaneMNNVL:
			if vendor, why = e.peers(b, lane, 1, "a GPU of each of two hosts"); why == "" && len(e.root.List("dev/nvidia-caps-imex-channels")) == 0 {
				why = "this process has no IMEX channel: give it /dev/nvidia-caps-imex-channels, and start nvidia-imex where NVLink joins hosts"
			}
		case lane == vocab.LaneRDMA:
			if vendor, why = e.peers(b, lane, 1, "a GPU of each of two hosts"); why == "" && !e.activeRDMA() {
				why = "no RDMA adapter of this machine is active"
			}
		}
		if why != "" {
			notes = append(notes, Finding{State: Note, Text: fmt.Sprintf("%s cannot use lane %s: %s", moves.What, lane, why)})
			continue
		}
		if len(moves.Handles) > 0 {
			handles, missing := e.handles(moves, vendor)
			lane += " (" + strings.Join(handles, ", ") + ")"
			notes = append(notes, missing...)
		}
		usable = append(usable, lane)
	}
	return usable, notes
}

// laneError returns why the libraries of a backend cannot use a lane, or nil if they can.
func (e *Examiner) laneError(b *catalog.Backend, lane string) error {
	of, _ := e.backends.Find(b.Name)
	for _, n := range of.Needs {
		if err := e.libraries[n.Kind].Lanes[lane]; err != nil {
			return err
		}
	}
	return nil
}

// handles returns the handles by which a backend can open memory of GPUs of a vendor, and a note for
// each handle that it cannot use.
func (e *Examiner) handles(moves *catalog.Moves, vendor string) (usable []string, notes []Finding) {
	for i := range moves.Handles {
		h, why := &moves.Handles[i], ""
		if !slices.Contains(h.Vendors, vendor) {
			why = fmt.Sprintf("it is for GPUs of %s only", strings.Join(h.Vendors, " and "))
		}
		for _, d := range e.driver(vendor).Devices {
			if h.Name == vocab.HandleVMM && why == "" && d.Unshared != nil {
				why = d.Unshared.Error()
			}
		}
		if why != "" {
			notes = append(notes, Finding{State: Note, Text: fmt.Sprintf("%s cannot open memory by handle %s: %s", moves.What, h.Name, why)})
			continue
		}
		usable = append(usable, h.Name)
	}
	return usable, notes
}

// peers returns the vendor of the GPUs between which a backend can move data over a lane, or why there
// are none. The lane requires at least need GPUs of this machine. joined describes in the reason what
// the lane connects.
func (e *Examiner) peers(b *catalog.Backend, lane string, need int, joined string) (vendor, why string) {
	why = e.withoutGPU(slices.DeleteFunc(slices.Clone(b.Vendors), func(vendor string) bool { return vendor == vocab.Host }))
	for _, vendor := range b.Vendors {
		d := e.devices[vendor]
		if vendor == vocab.Host || d.here == 0 {
			continue
		}
		lacks := lacking(e.on(b, vendor))
		if err := e.laneError(b, lane); err != nil {
			lacks = append(lacks, err.Error())
		}
		switch {
		case len(lacks) > 0:
			why = strings.Join(lacks, "; ")
		case len(d.usable) < need:
			why = fmt.Sprintf("it joins %s, and ranks get %d", joined, len(d.usable))
		default:
			return vendor, ""
		}
	}
	return "", why
}

// loopback returns a finding if no loopback interface is up. Libraries connect the ranks of a host
// through it. In a new network namespace it is down.
func loopback() []Finding {
	interfaces, err := net.Interfaces()
	up := func(i net.Interface) bool { return i.Flags&net.FlagLoopback != 0 && i.Flags&net.FlagUp != 0 }
	if err != nil || slices.ContainsFunc(interfaces, up) { // a sandbox may hide them
		return nil
	}
	return []Finding{{State: Missing, Text: "the loopback interface is down, over which the ranks of a host connect: run ip link set lo up", Held: true}}
}

// capSysPtrace is the bit of CAP_SYS_PTRACE.
const capSysPtrace = 19

// processVM returns why a process cannot read the memory of another one that permits it, or "" if it
// can.
func processVM(root sysfs.Root) string {
	scope, _ := root.Number("proc/sys/kernel/yama/ptrace_scope")
	effective, _ := strconv.ParseUint(strings.TrimSpace(root.Fields(":", "proc/self/status")["CapEff"]), 16, 64)
	if scope > 2 || scope == 2 && effective>>capSysPtrace&1 == 0 {
		return fmt.Sprintf("/proc/sys/kernel/yama/ptrace_scope is %d: set it to 1 or less", scope)
	}
	// A sandbox that refuses the call also refuses it for the caller's own memory.
	var from, to uint64
	local := []unix.Iovec{{Base: (*byte)(unsafe.Pointer(&to))}}
	local[0].SetLen(8)
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from)), Len: 8}}
	if _, err := unix.ProcessVMReadv(os.Getpid(), local, remote, 0); err != nil {
		return fmt.Sprintf("process_vm_readv: %v: in a container, start it with --cap-add SYS_PTRACE", err)
	}
	return ""
}
