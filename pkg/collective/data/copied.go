package data

import (
	"errors"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Copied fills and checks copies of buffers on the host. It is used where kernels cannot be compiled,
// and to re-check the verdict of kernels.
type Copied struct {
	device accel.Device
	inline Inline
}

var _ runner.Data = (*Copied)(nil)

// NewCopied returns data for the memory of d.
func NewCopied(d accel.Device) *Copied { return &Copied{device: d} }

// CheckedBy implements runner.Data.
func (k *Copied) CheckedBy() string { return "host" }

// pieceBytes is the maximum size, in bytes, of a part that is copied to the host at a time.
const pieceBytes = 64 << 20

// staged calls do for each part of the regions. The arguments of do are staging memory, the address of
// the part in the buffer, and a region that describes its elements from offset 0.
func (k *Copied) staged(p workload.Pattern, buf accel.Ptr, regions []workload.Region, do func(stage unsafe.Pointer, at accel.Ptr, r workload.Region) error) error {
	size, largest := int64(p.Type().Size()), int64(1)
	for _, r := range regions {
		largest = max(largest, r.Count)
	}
	piece := min(largest, pieceBytes/size)
	stage, err := k.device.AllocHost(piece * size)
	if err != nil {
		return err
	}
	for _, r := range regions {
		for done := int64(0); done < r.Count && err == nil; {
			part := workload.Region{Count: min(r.Count-done, piece), First: r.First + done, Source: r.Source}
			err = do(stage, buf.Add((r.Offset+done)*size), part)
			done += part.Count
		}
	}
	return errors.Join(err, k.device.FreeHost(stage))
}

// Fill implements runner.Data.
func (k *Copied) Fill(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) error {
	return k.write(s, p, buf, regions, k.inline.Fill)
}

// Poison implements runner.Data.
func (k *Copied) Poison(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) error {
	return k.write(s, p, buf, regions, k.inline.Poison)
}

func (k *Copied) write(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region,
	put func(accel.Stream, workload.Pattern, accel.Ptr, []workload.Region) error,
) error {
	return k.staged(p, buf, regions, func(stage unsafe.Pointer, at accel.Ptr, r workload.Region) error {
		if err := put(s, p, accel.Ptr(uintptr(stage)), []workload.Region{r}); err != nil {
			return err
		}
		if err := k.device.CopyIn(s, at, stage, r.Count*int64(p.Type().Size())); err != nil {
			return err
		}
		return s.Synchronize()
	})
}

// Check implements runner.Data.
func (k *Copied) Check(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) (workload.Verdict, error) {
	v := workload.Verdict{First: -1}
	size := int64(p.Type().Size())
	err := k.staged(p, buf, regions, func(stage unsafe.Pointer, at accel.Ptr, r workload.Region) error {
		if err := k.device.CopyOut(s, stage, at, r.Count*size); err != nil {
			return err
		}
		if err := s.Synchronize(); err != nil {
			return err
		}
		part, err := k.inline.Check(s, p, accel.Ptr(uintptr(stage)), []workload.Region{r})
		if err != nil {
			return err
		}
		if first := int64(at-buf)/size + part.First; part.Wrong > 0 && (v.Wrong == 0 || first < v.First) {
			v.First = first
		}
		v.Checked += part.Checked
		v.Wrong += part.Wrong
		return nil
	})
	return v, err
}

// Close implements runner.Data.
func (k *Copied) Close() error { return nil }
