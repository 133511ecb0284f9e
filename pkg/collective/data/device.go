// Package data fills and checks buffers of the collective family. It does so with kernels in device
// memory, on the host through copies, or directly in memory that this process can access.
package data

import (
	"context"
	_ "embed" // pattern.cu
	"errors"
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

//go:embed pattern.cu
var patternKernels string

// source returns the source of the kernels with its dependencies.
func source() string { return kernels.Complete(workload.PatternSource + patternKernels) }

// New returns a runner.Data that uses kernels of the device or, if they cannot be compiled, the host.
func New(ctx context.Context, d accel.Device) (runner.Data, error) {
	k, err := newDeviceData(ctx, d, source())
	if errors.Is(err, accel.ErrUnsupported) {
		return NewCopied(d), nil
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// deviceData runs the kernels of pattern.cu.
type deviceData struct {
	device       *accel.Scope
	write, check accel.Kernel
	verdict      kernels.Verdict

	second    *Copied
	rechecked map[recheck]bool
}

// newDeviceData compiles the kernels of source.
func newDeviceData(ctx context.Context, d accel.Device, source string) (*deviceData, error) {
	k := &deviceData{device: accel.NewScope(d), second: NewCopied(d), rechecked: map[recheck]bool{}}
	err := k.device.Kernels(ctx, "pattern.cu", source, map[string]*accel.Kernel{"cx_pattern_write": &k.write, "cx_pattern_check": &k.check})
	if err == nil {
		k.verdict, err = kernels.NewVerdict(k.device)
	}
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// recheck identifies buffers of which the host re-checks one.
type recheck struct {
	dtype   numeric.Type
	redop   uint32
	world   uint32
	checked int64
	wrong   bool
}

// maxRecheck is the largest buffer, in bytes, that the host re-checks even if the kernels found nothing
// wrong.
const maxRecheck = 1 << 20

func (k *deviceData) CheckedBy() string { return "device" }

func (k *deviceData) Fill(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) error {
	return k.launchAll(s, k.write, p, buf, regions, accel.Arg(uint64(0)))
}

func (k *deviceData) Poison(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) error {
	return k.launchAll(s, k.write, p, buf, regions, accel.Arg(^uint64(0)))
}

// launchAll launches a kernel for each region. last is the kernel's last argument.
func (k *deviceData) launchAll(s accel.Stream, f accel.Kernel, p workload.Pattern, buf accel.Ptr, regions []workload.Region, last unsafe.Pointer) error {
	params := p.Params()
	for _, r := range regions {
		if r.Count == 0 {
			continue
		}
		if err := f.Launch(s, accel.BlocksFor(k.device, r.Count), accel.BlockThreads, 0,
			accel.Arg(buf), accel.Arg(params), accel.Arg(r.Offset), accel.Arg(r.Count), accel.Arg(r.First), accel.Arg(int32(r.Source)), last); err != nil {
			return err
		}
	}
	return nil
}

// Check implements runner.Data. To detect broken kernels, the host re-checks a copy of the first wrong
// buffer of each kind, and of the first correct buffer of each size up to maxRecheck.
func (k *deviceData) Check(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) (workload.Verdict, error) {
	v, err := k.compare(s, p, buf, regions)
	if err != nil {
		return v, err
	}
	params := p.Params()
	r := recheck{p.Type(), params.RedOp, params.World, v.Checked, v.Wrong > 0}
	if k.rechecked[r] || !r.wrong && v.Checked*int64(p.Type().Size()) > maxRecheck {
		return v, nil
	}
	k.rechecked[r] = true
	second, err := k.second.Check(s, p, buf, regions)
	if err == nil && second != v {
		err = fmt.Errorf("%w: %+v on the device, %+v on the host", runner.ErrDisagree, v, second)
	}
	return v, err
}

// compare returns the kernels' verdict.
func (k *deviceData) compare(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) (workload.Verdict, error) {
	elements := int64(0)
	for _, r := range regions {
		elements += r.Count
	}
	return k.verdict.Of(s, elements, func(verdict unsafe.Pointer) error { return k.launchAll(s, k.check, p, buf, regions, verdict) })
}

func (k *deviceData) Close() error { return k.device.Close() }
