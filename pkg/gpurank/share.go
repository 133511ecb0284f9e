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

// AllocError adds the reason code to the error of an allocation of so many bytes. The case is refused
// if the driver does not support that kind of memory.
func AllocError(bytes int64, err error) error {
	switch {
	case errors.Is(err, accel.ErrUnsupported):
		return rank.Refused("%v", err)
	case errors.Is(err, accel.ErrOutOfMemory), errors.Is(err, unix.ENOMEM):
		return rank.OutOfMemory(bytes, err)
	}
	return rank.Coded(result.ReasonDevice, err)
}

// Reaches refuses the case if the device of local rank own cannot access the device of local rank
// other. why ends the message: what the access is needed for.
func Reaches(d *gpu.Device, own, other int, why string) error {
	reaches, err := d.CanAccessPeer(other)
	if err != nil {
		return rank.Coded(result.ReasonDevice, err)
	}
	if !reaches {
		return rank.Refused("device %d cannot access device %d directly%s", own, other, why)
	}
	return nil
}

// OpenShared maps memory that another rank of this host shares; see gpu.Device.OpenShared.
func OpenShared(d *gpu.Device, other int, h gpu.SharedHandle) (accel.Ptr, error) {
	at, err := d.OpenShared(h)
	if err != nil {
		err = rank.Coded(result.ReasonDevice, fmt.Errorf("open the memory of rank %d: %w; in containers, start all ranks with --ipc=host", other, err))
	}
	return at, err
}
