package gpurank

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// AllocError adds the reason code to the error of an allocation of the given size. The error is a
// refusal if the driver does not support that kind of memory.
func AllocError(bytes int64, err error) error {
	switch {
	case errors.Is(err, accel.ErrUnsupported):
		return rank.Refused("%v", err)
	case errors.Is(err, accel.ErrOutOfMemory), errors.Is(err, unix.ENOMEM):
		return rank.OutOfMemory(bytes, err)
	}
	return rank.Coded(result.ReasonDevice, err)
}

// Reaches returns a refusal if the device of local rank own cannot access the device of local rank
// peer. why, appended to the message, says what the access is needed for.
func Reaches(d *gpu.Device, own, peer int, why string) error {
	reaches, err := d.CanAccessPeer(peer)
	if err != nil {
		return rank.Coded(result.ReasonDevice, err)
	}
	if !reaches {
		return rank.Refused("device %d cannot access device %d directly%s", own, peer, why)
	}
	return nil
}

// OpenShared maps memory of rank peer, on this host; see gpu.Device.OpenShared.
func OpenShared(d *gpu.Device, peer int, h gpu.SharedHandle) (accel.Ptr, error) {
	at, err := d.OpenShared(h)
	if err != nil {
		err = rank.Coded(result.ReasonDevice, fmt.Errorf("open the memory of rank %d: %w; in containers, start all ranks with --ipc=host", peer, err))
	}
	return at, err
}
