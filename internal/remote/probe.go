package remote

import (
	"context"
	_ "embed"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
)

//go:embed snippets/probe.sh
var probeSnippet string

const (
	maxFacts   = 64 << 10
	maxUnknown = 32
)

// Switch is something that is on or off, or unknown when empty.
type Switch string

// The positions of a Switch.
const (
	On  Switch = "on"
	Off Switch = "off"
)

// Facts are what a Mac says of itself before anything was sent to it. A fact it
// did not give is zero.
type Facts struct {
	OSVersion    string
	Build        string // of macOS
	Model        string
	Arch         string
	Serial       string
	PlatformUUID string
	MemoryBytes  int64
	CPUs         int
	// VirtualMachine: it is a guest, not a Mac.
	VirtualMachine bool
	BootSession    string
	DiskFreeBytes  int64
	FileVault      Switch
	// ConsoleUser owns the graphical session; root means that there is none.
	ConsoleUser string
	User        string
	// Client is the address from which this connection comes, as the Mac sees it.
	Client netip.Addr
	// Sudo: the user runs anything as root without a password.
	Sudo bool
	// SudoAgent: the user runs the installed agent's own verbs as root without a
	// password, and nothing else: what converge leaves.
	SudoAgent bool
	// DiskMarker is our mark on the disk. It can be read with Sudo only.
	DiskMarker *document.DiskMarker
	// DiskMarkerDamaged: there is one, and it cannot be read.
	DiskMarkerDamaged bool
	// CurrentAgent is the SHA-256 of the installed build.
	CurrentAgent string
	// InstalledBuilds are the SHA-256s of all builds that are installed.
	InstalledBuilds []string
	// Staged are uploaded files and their sizes: builds by their SHA-256, and
	// parts of uploads.
	Staged map[string]int64
	// Unknown are lines nobody understood, as they came.
	Unknown []string
}

// Missing names the facts that every Mac gives and this one did not.
func (f Facts) Missing() []string {
	var all []string
	for name, missing := range map[string]bool{
		"os": f.OSVersion == "", "model": f.Model == "", "arch": f.Arch == "", "serial": f.Serial == "",
		"memory": f.MemoryBytes == 0, "boot session": f.BootSession == "", "disk": f.DiskFreeBytes == 0,
		"FileVault": f.FileVault == "", "console": f.ConsoleUser == "",
	} {
		if missing {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// Probe asks the Mac what it is. It sends nothing and needs no root.
func (s *Session) Probe(ctx context.Context) (Facts, error) {
	const during = "probing the Mac"
	r, err := s.exec(ctx, command{
		during: during, line: shell(probeSnippet), limit: maxFacts, timeout: snippetTimeout,
	})
	if err != nil {
		return Facts{}, err
	}
	f, complete := parseFacts(string(r.stdout))
	if !complete {
		return Facts{}, &badAnswer{During: during, Reason: "it is not complete"}
	}
	s.installed, s.root = f.CurrentAgent, f.root()
	return f, nil
}

func (f Facts) root() root {
	switch {
	case f.Sudo:
		return rootByAnything
	case f.SudoAgent:
		return rootByAgent
	}
	return rootUnknown
}

// parseFacts reads labelled lines. Facts are complete when the first and the
// last line of the snippet are there.
func parseFacts(text string) (f Facts, complete bool) {
	f.Staged = map[string]int64{}
	begun, ended := false, false
	for line := range strings.SplitSeq(text, "\n") {
		label, value, _ := strings.Cut(line, " ")
		value = strings.TrimSpace(value)
		switch {
		case line == "":
		case line == "probe 1":
			begun = true
		case line == "end 1":
			ended = true
		case value == "" && line != label:
			// The command behind it failed: a fact that is missing.
		case !f.set(label, value) && len(f.Unknown) < maxUnknown:
			f.Unknown = append(f.Unknown, line)
		}
	}
	return f, begun && ended
}

// set takes one fact, and reports whether it was understood.
func (f *Facts) set(label, value string) bool {
	switch label {
	case "os":
		f.OSVersion = value
	case "build":
		f.Build = value
	case "arch":
		f.Arch = value
	case "hw.model":
		f.Model = value
	case "hw.memsize":
		return parse(value, &f.MemoryBytes)
	case "hw.ncpu":
		var n int64
		ok := parse(value, &n)
		f.CPUs = int(n)
		return ok
	case "kern.bootsessionuuid":
		f.BootSession = value
	case "kern.hv_vmm_present":
		f.VirtualMachine = value == "1"
	case "console":
		f.ConsoleUser = value
	case "user":
		f.User = value
	case "sudo":
		f.Sudo, f.SudoAgent = value == "yes", value == "agent"
	default:
		return f.setComposite(label, value)
	}
	return true
}

// setComposite takes the facts that have to be cut out of a line.
func (f *Facts) setComposite(label, value string) bool {
	switch label {
	case "ioreg":
		return f.setIORegistry(value)
	case "disk":
		return f.setDisk(value)
	case "filevault":
		return f.setFileVault(value)
	case "client":
		return f.setClient(value)
	case "current":
		return build(path.Base(value), &f.CurrentAgent)
	case "slot":
		return f.setInstalledBuild(path.Base(path.Dir(value)))
	case "staged":
		return f.setStaged(value)
	case "journal":
		f.setDiskMarker(value)
		return true
	}
	return false
}

// setClient takes an address; sshd may have met IPv4 on an IPv6 socket.
func (f *Facts) setClient(value string) bool {
	address, err := netip.ParseAddr(value)
	if err != nil {
		return false
	}
	f.Client = address.Unmap().WithZone("")
	return true
}

// setInstalledBuild passes over the links to slots that stand beside them.
func (f *Facts) setInstalledBuild(name string) bool {
	if name == "current" || name == "next" {
		return true
	}
	var slot string
	if !build(name, &slot) {
		return false
	}
	f.InstalledBuilds = append(f.InstalledBuilds, slot)
	return true
}

// setIORegistry reads `"IOPlatformSerialNumber" = "C07…"`.
func (f *Facts) setIORegistry(value string) bool {
	parts := strings.Split(value, `"`)
	if len(parts) < 5 {
		return false
	}
	switch parts[1] {
	case "IOPlatformSerialNumber":
		f.Serial = parts[3]
	case "IOPlatformUUID":
		f.PlatformUUID = parts[3]
	default:
		return false
	}
	return true
}

// setDisk reads the line of df -k: what is available stands before the first
// percentage.
func (f *Facts) setDisk(value string) bool {
	fields := strings.Fields(value)
	for i, field := range fields {
		if i == 0 || !strings.HasSuffix(field, "%") {
			continue
		}
		var blocks int64
		if !parse(fields[i-1], &blocks) || blocks > 1<<50 {
			return false
		}
		f.DiskFreeBytes = blocks << 10
		return true
	}
	return false
}

func (f *Facts) setFileVault(value string) bool {
	on, known := document.FileVaultOn(value)
	if known {
		f.FileVault = map[bool]Switch{true: On, false: Off}[on]
	}
	return known
}

func (f *Facts) setStaged(value string) bool {
	fields := strings.Fields(value)
	var size int64
	if len(fields) != 2 || !parse(fields[0], &size) {
		return false
	}
	if f.Staged == nil {
		f.Staged = map[string]int64{}
	}
	f.Staged[path.Base(fields[1])] = size
	return true
}

func (f *Facts) setDiskMarker(value string) {
	j, err := document.DecodeDiskMarker([]byte(value))
	if err != nil {
		f.DiskMarkerDamaged = true
		return
	}
	f.DiskMarker = &j
}

func parse(value string, n *int64) bool {
	parsed, err := strconv.ParseInt(value, 10, 64)
	if err != nil || parsed < 0 {
		return false
	}
	*n = parsed
	return true
}

func build(name string, into *string) bool {
	if !document.IsSHA256(name) {
		return false
	}
	*into = name
	return true
}
