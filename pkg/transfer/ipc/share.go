package ipc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/fdpass"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/device"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// sharing is a mechanism by which rank 1 opens the pool of rank 0.
type sharing interface {
	// handle is its name in vocab.Handles.
	handle() string
	// share creates a pool of the given size and returns the argument of open in the other process.
	share(bytes int64) (metadata any, err error)
	// open maps the pool of the other process, until close.
	open(ctx context.Context, metadata []byte) (accel.Ptr, error)
	close(remote accel.Ptr) error
	// unshare ends what share began, except for the pool. It is idempotent.
	unshare() error
}

// newSharing returns the sharing for a handle as cases name it.
func newSharing(end *device.End, handle string) (sharing, error) {
	switch handle {
	case "", vocab.HandleIPC:
		return plain{end}, nil
	case vocab.HandleVMM:
		return &virtual{End: end}, nil
	}
	return nil, rank.Refused("backend ipc does not support handle %s", handle)
}

// plain is a plain allocation with the driver's handle.
type plain struct{ *device.End }

func (plain) handle() string { return vocab.HandleIPC }

func (p plain) share(bytes int64) (any, error) { return p.SharePool(bytes) }

func (p plain) open(_ context.Context, metadata []byte) (accel.Ptr, error) {
	var handle gpu.SharedHandle
	if err := json.Unmarshal(metadata, &handle); err != nil {
		return 0, fmt.Errorf("metadata of the peer: %w", err)
	}
	return gpurank.OpenShared(p.Device, 0, handle)
}

func (p plain) close(remote accel.Ptr) error { return p.CloseShared(remote) }

func (plain) unshare() error { return nil }

// virtual is memory of virtual memory management. Its file descriptor is passed between processes
// through a socket.
type virtual struct {
	*device.End
	offer *fdpass.Offer // of this rank's pool; nil: none
}

// offered describes a pool to the peer.
type offered struct {
	Address string `json:"address"` // of the socket that passes the descriptor
	Bytes   int64  `json:"bytes"`   // of the memory behind it
}

func (*virtual) handle() string { return vocab.HandleVMM }

func (v *virtual) share(bytes int64) (any, error) {
	f, mapped, err := v.ShareVirtualPool(bytes)
	if err != nil {
		return nil, err
	}
	if v.offer, err = fdpass.NewOffer(f); err != nil {
		return nil, rank.Coded(result.ReasonDevice, err)
	}
	return offered{v.offer.Address(), mapped}, nil
}

func (v *virtual) open(ctx context.Context, metadata []byte) (accel.Ptr, error) {
	var o offered
	if err := json.Unmarshal(metadata, &o); err != nil {
		return 0, fmt.Errorf("metadata of the peer: %w", err)
	}
	f, err := fdpass.Take(ctx, o.Address)
	if err != nil {
		return 0, rank.Coded(result.ReasonDevice, fmt.Errorf("descriptor of the memory of rank 0: %w; in containers, start both ranks with --network=host", err))
	}
	remote, err := v.ImportVirtual(f, o.Bytes)
	if err != nil {
		err = rank.Coded(result.ReasonDevice, fmt.Errorf("open the memory of rank 0: %w", err))
	}
	return remote, errors.Join(err, f.Close())
}

func (v *virtual) close(remote accel.Ptr) error { return v.Free(remote) }

func (v *virtual) unshare() (err error) {
	if v.offer != nil {
		err = v.offer.Close()
		v.offer = nil
	}
	return err
}
