package provenance

import (
	"io/fs"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/sysfs"
)

// Host returns the facts that documents contain about the machine whose file systems are
// below root ("proc", "sys", "etc"): the CPU's model and counts, NUMA nodes, memory, kernel
// and operating system. A fact that cannot be read is missing. A text that does not have
// its published form becomes Withheld.
func Host(root fs.FS, screen *Screen) map[string]string {
	h := host{root: sysfs.Root{FS: root}, screen: screen, facts: map[string]string{"arch": runtime.GOARCH}}
	h.cpu()
	h.memory()
	h.kernel()
	h.settings()
	return h.facts
}

type host struct {
	root   sysfs.Root
	screen *Screen
	facts  map[string]string
}

// Published forms of facts that are text.
var (
	cpuModel      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ()@.,+_-]{2,80}$`)
	kernelNumber  = regexp.MustCompile(`^[0-9]+\.[0-9]+(\.[0-9]+)?(-[0-9]+(\.[0-9]+){0,4})?`)
	kernelFlavour = regexp.MustCompile(`^[.+-]?(generic|lowlatency|aws|azure|gcp|gke|oracle|kvm|cloud|amd64|arm64|x86_64|aarch64|64k|nvidia|rt|default|el[789](_[0-9]+)?|el10(_[0-9]+)?|amzn2(023)?|fc[0-9]+|deb1[0-9](u[0-9]+)?|microsoft|standard|WSL2)`)
	osName        = regexp.MustCompile(`^[a-z0-9._-]{1,24} ?[0-9.]{0,12}$`)
	setting       = regexp.MustCompile(`^[a-z_]{1,16}$`)
	cpuDir        = regexp.MustCompile(`^cpu[0-9]+$`)
)

// set records a fact that is text, or Withheld if it does not have its published form.
func (h *host) set(name, value string, form *regexp.Regexp) {
	value = strings.Join(strings.Fields(value), " ")
	if value == "" {
		return
	}
	if !form.MatchString(value) || h.screen.Check(value) != nil {
		value = Withheld
	}
	h.facts[name] = value
}

func (h *host) count(name string, n int) {
	if n > 0 {
		h.facts[name] = strconv.Itoa(n)
	}
}

// dirs returns the entries of dir whose names have the form.
func (h *host) dirs(dir string, form *regexp.Regexp) []string {
	return slices.DeleteFunc(h.root.List(dir), func(name string) bool { return !form.MatchString(name) })
}

// cpu reads /proc/cpuinfo and /sys/devices/system/{cpu,node}.
func (h *host) cpu() {
	info := h.root.Fields(":", "proc/cpuinfo")
	model := info["model name"]
	if part := info["CPU part"]; model == "" && part != "" {
		model = "ARM implementer " + info["CPU implementer"] + " part " + part
	}
	h.set("cpu_model", model, cpuModel)
	if slices.Contains(strings.Fields(info["flags"]), "hypervisor") {
		h.facts["virtual_machine"] = "true"
	}
	var sockets, cores []string
	const dir = "sys/devices/system/cpu"
	cpus := h.dirs(dir, cpuDir)
	for _, cpu := range cpus {
		socket := h.root.Text(dir, cpu, "topology/physical_package_id")
		core := socket + "/" + h.root.Text(dir, cpu, "topology/core_id")
		if socket != "" && !slices.Contains(sockets, socket) {
			sockets = append(sockets, socket)
		}
		if socket != "" && !slices.Contains(cores, core) {
			cores = append(cores, core)
		}
	}
	h.count("cpu_sockets", len(sockets))
	h.count("cpu_cores", len(cores))
	h.count("cpu_threads", len(cpus))
	h.count("numa_nodes", len(h.root.NUMANodes()))
}

func (h *host) memory() {
	if n, ok := h.root.Memory("MemTotal"); ok {
		h.facts["memory_bytes"] = strconv.FormatInt(n, 10)
	}
}

// kernel records the version and the known parts of its suffix. Other parts may be private:
// some sites name their kernels after hosts.
func (h *host) kernel() {
	release := h.root.Text("proc/sys/kernel/osrelease")
	number := kernelNumber.FindString(release)
	if number == "" {
		return
	}
	rest := release[len(number):]
	for m := kernelFlavour.FindString(rest); m != ""; m = kernelFlavour.FindString(rest) {
		number, rest = number+m, rest[len(m):]
	}
	if h.screen.Check(number) != nil {
		number = Withheld
	}
	h.facts["kernel"] = number
	os := h.root.Fields("=", "etc/os-release")
	h.set("os", strings.Trim(os["ID"], `"`)+" "+strings.Trim(os["VERSION_ID"], `"`), osName)
}

// settings records the settings that are known to affect timings.
func (h *host) settings() {
	h.set("cpu_governor", h.root.Text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"), setting)
	if _, on, ok := strings.Cut(h.root.Text("sys/kernel/mm/transparent_hugepage/enabled"), "["); ok {
		on, _, _ = strings.Cut(on, "]")
		h.set("transparent_hugepage", on, setting)
	}
	quota, period, ok := strings.Cut(h.root.Text("sys/fs/cgroup/cpu.max"), " ")
	q, err1 := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if ok && err1 == nil && err2 == nil && p > 0 {
		h.facts["cpu_quota"] = strconv.FormatFloat(q/p, 'g', 4, 64)
	}
}
