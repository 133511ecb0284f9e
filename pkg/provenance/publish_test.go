package provenance_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/report"
	"github.com/collectivex/collectivex/pkg/result"
)

// planted is one private thing of each kind.
var planted = map[string]string{
	"host name":       "gpuhost17",
	"full host name":  "gpuhost17.dc4.example.internal",
	"other host":      "login-2.dc4.example.internal",
	"user":            "casimir",
	"account":         "casimir@gpuhost17",
	"IPv4":            "10.20.30.40",
	"IPv6":            "fe80::b859:9fff:fe03:d4",
	"MAC":             "b8:59:9f:03:00:d4",
	"GUID":            "b859:9f03:00d4:1234",
	"GPU UUID":        "GPU-8d7f1a2b-0c1d-4e5f-8a9b-0123456789ab",
	"PCI":             "0000:3b:00.0",
	"path":            "/home/casimir/venv/lib/libnccl.so.2",
	"token":           "ghp_0123456789abcdefghij0123456789abcdef",
	"secret variable": "correct-horse-battery",
}

// root is a machine whose every file says something private.
func root(secret string) fstest.MapFS {
	fs := fstest.MapFS{
		"proc/cpuinfo":              file("model name\t: " + secret + "\nflags\t: hypervisor " + secret),
		"proc/meminfo":              file("MemTotal: 1024 kB " + secret),
		"proc/sys/kernel/osrelease": file("6.8.0-45-generic-" + secret),
		"etc/os-release":            file("ID=" + secret + "\nVERSION_ID=" + secret),
		"etc/hostname":              file(secret),
		"sys/kernel/mm/transparent_hugepage/enabled":               file("[" + secret + "]"),
		"sys/fs/cgroup/cpu.max":                                    file(secret + " 100000"),
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":     file(secret),
		"sys/devices/system/cpu/cpu0/topology/core_id":             file(secret),
		"sys/devices/system/cpu/cpu0/topology/physical_package_id": file(secret),
		"sys/class/infiniband/mlx5_0/node_guid":                    file(secret),
	}
	return fs
}

// environ has the secret behind every published name, and as names of the
// machine itself.
func environ(secret string) []string {
	return []string{
		"NCCL_ALGO=" + secret, "NCCL_SOCKET_IFNAME=eth0," + secret, "NCCL_COMM_ID=" + secret + ":5000", "NCCL_TOPO_FILE=" + secret,
		"NCCL_IB_HCA=mlx5_0:" + secret, "UCX_NET_DEVICES=" + secret, "NVSHMEM_BOOTSTRAP_UID_SESSION_ID=" + secret, "NCCL_DEBUG=INFO" + secret,
		"NCCL_" + strings.ToUpper(secret) + "=1", "HSA_X=" + secret, "MC_Y=1 " + secret,
		"HOME=/home/casimir", "USER=casimir", "GITHUB_TOKEN=correct-horse-battery", "LD_LIBRARY_PATH=" + secret,
	}
}

// Whatever a machine, its environment and its libraries say, nothing private
// of it is in any published file.
func TestNothingPrivateIsPublished(t *testing.T) {
	for kind, secret := range planted {
		t.Run(kind, func(t *testing.T) {
			screen := provenance.ScreenOf("gpuhost17.dc4.example.internal", environ(secret))
			dir := t.TempDir()
			a := resulttest.Attempt()
			a.Environment = screen.Environment(environ(secret), map[string]string{"LD_PRELOAD": secret + ":/opt/" + secret + "/lib" + secret + ".so", "GLIBC_TUNABLES": secret, "UCX_TLS": secret})
			a.Host = provenance.Host(root(secret), screen)
			require.NotContains(t, a.Host, "hostname")

			// What a runtime and a library say.
			ok := resulttest.EP(resulttest.EPCase(), a)
			message := "NVIDIA H200 " + secret
			ok.Topology.DeviceProduct = screen.Public(message)
			ok.Runtime.Framework = screen.Public(message)
			ok.Runtime.AcceleratorRuntime = screen.Public(secret)
			version := screen.Public("2.28.3+" + secret)
			ok.Implementation.LibraryVersion = &version
			ok.Provenance.Libraries = []result.Library{{
				Kind: "nccl", Version: screen.Public(secret), SOName: screen.SOName(secret + ".so"), BuildID: screen.BuildID(secret),
			}}
			_, err := result.Write(dir, ok, 0, screen.Document)
			require.NoError(t, err)

			// What a library said when it failed: its code is published, its text is not.
			failed := resulttest.Fail(resulttest.New(resulttest.CollectiveCase(), a), result.ReasonLibrary.With("nccl 5 %s", secret).String())
			if _, err = result.Write(dir, failed, 1, screen.Document); err != nil {
				// The form of a detail lets it pass, the screen does not: the case is
				// published without it.
				require.ErrorIs(t, err, provenance.ErrPrivate)
				failed = resulttest.Fail(failed, string(result.ReasonUnpublishable))
				_, err = result.Write(dir, failed, 1, screen.Document)
				require.NoError(t, err)
			}

			out := filepath.Join(dir, "run.ndjson")
			m := &plan.Matrix{RequestedCases: []plan.Requested{{Disposition: plan.Runnable, Case: resulttest.EPCase()}}}
			_, err = fold.Fold([]string{dir}, m, fold.Expected{}, out)
			require.NoError(t, err)
			var page bytes.Buffer
			s, _, err := report.Build([]string{out}, m)
			require.NoError(t, err)
			require.NoError(t, s.Markdown(&page, report.MaxMarkdown))
			require.NoError(t, s.Text(&page, 0))
			require.NoError(t, s.JSON(&page))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "summary"), page.Bytes(), 0o644))

			files, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, files, 4)
			for _, f := range files {
				data, err := os.ReadFile(filepath.Join(dir, f.Name()))
				require.NoError(t, err)
				for what, thing := range planted {
					require.NotContains(t, strings.ToLower(string(data)), strings.ToLower(thing), "%s in %s", what, f.Name())
				}
			}
		})
	}
}

// The net under the allow-lists: a private thing in any text of a document
// keeps the document from the disk, and one that is on a disk all the same
// from the fold and the summary.
func TestNoTextOfADocumentEscapesTheScreen(t *testing.T) {
	screen := provenance.ScreenOf("gpuhost17.dc4.example.internal", environ(""))
	places := map[string]func(*ep.Document, string){
		"device":    func(d *ep.Document, s string) { d.Topology.DeviceProduct = s },
		"runtime":   func(d *ep.Document, s string) { d.Runtime.AcceleratorRuntime = s },
		"library":   func(d *ep.Document, s string) { d.Provenance.Libraries = []result.Library{{SOName: s}} },
		"image":     func(d *ep.Document, s string) { d.Provenance.Image = &s },
		"host fact": func(d *ep.Document, s string) { d.Provenance.Host = map[string]string{"kernel": s} },
		"host key":  func(d *ep.Document, s string) { d.Provenance.Host = map[string]string{s: "1"} },
		"maturity":  func(d *ep.Document, s string) { d.Implementation.Maturity = "x " + s },
		"run":       func(d *ep.Document, s string) { d.Identity.AllocationFactors.RunID = &s },
		"wire":      func(d *ep.Document, s string) { d.Measurement.Rows[1].LogicalCopies.Wire = s },
		"generator": func(d *ep.Document, s string) { d.Provenance.Generator = "cxrun " + s },
		"histogram": func(d *ep.Document, s string) {
			d.Measurement.Rows[0].Histograms = map[string]result.Histogram{s: {}}
		},
		"precision": func(d *ep.Document, s string) { d.Measurement.DispatchDType = s },
	}
	// The fold knows no names of the machine that measured, only shapes.
	byName := []string{"host name", "user", "secret variable"}
	// In these text is of our own vocabulary: a machine may be called like a word of it.
	own := []string{"image", "maturity", "run", "wire", "generator", "histogram", "precision"}
	for place, put := range places {
		for kind, secret := range planted {
			if slices.Contains(own, place) && (kind == "host name" || kind == "user") {
				continue
			}
			t.Run(place+"/"+kind, func(t *testing.T) {
				d := resulttest.EP(resulttest.EPCase(), resulttest.Attempt())
				put(d, secret)
				dir := t.TempDir()
				_, err := result.Write(dir, d, 0, screen.Document)
				require.ErrorIs(t, err, provenance.ErrPrivate)
				files, err := os.ReadDir(dir)
				require.NoError(t, err)
				require.Empty(t, files)

				data, err := result.Encode(d)
				require.NoError(t, err)
				path := filepath.Join(dir, "smuggled.json")
				require.NoError(t, os.WriteFile(path, data, 0o644))
				out := filepath.Join(dir, "run.ndjson")
				v, err := fold.Fold([]string{path}, nil, fold.Expected{}, out)
				require.NoError(t, err)
				if !slices.Contains(byName, kind) {
					require.Len(t, v.Problems, 1)
					require.ErrorIs(t, v.Problems[0], provenance.ErrPrivate)
					folded, err := os.ReadFile(out)
					require.NoError(t, err)
					require.Empty(t, folded)
					require.NotContains(t, v.Problems[0].Error(), secret)
				}
			})
		}
	}
}
