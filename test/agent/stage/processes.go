package stage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Role is what a process of a Mac is there for.
type Role string

// The roles.
const (
	RoleAgent Role = "agent"
	RoleShim  Role = "shim"  // holds one machine
	RoleRun   Role = "run"   // tart run
	RoleGuest Role = "guest" // what stands for the machine itself
	RoleOther Role = "other" // any other command of tart, or of macOS
)

// Process of a Mac.
type Process struct {
	PID  int
	Role Role
	// Machine of a shim, run or guest, as far as its arguments tell.
	Machine string
	Args    []string
	// exe is the file it runs.
	exe    string
	parent int
}

// Of reports whether the process is one of this Mac.
func (p Process) Of(m *Mac) bool { return strings.Contains(p.exe, m.Dir) }

// Processes are those that run one of the Mac's own binaries.
func (m *Mac) Processes() []Process { return scan(m.Dir) }

// AllProcesses are those of all Macs: one look for many.
func AllProcesses() []Process { return scan(filepath.Join(os.TempDir(), macPrefix)) }

func scan(below string) []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var list []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if err != nil || !strings.Contains(exe, below) {
			continue
		}
		if p, alive := processOf(pid); alive {
			p.exe = exe
			list = append(list, p)
		}
	}
	return withoutForks(list)
}

// withoutForks leaves out what is about to become another program: until then it
// looks like its parent.
func withoutForks(list []Process) []Process {
	byPID := map[int]Process{}
	for _, p := range list {
		byPID[p.PID] = p
	}
	return slices.DeleteFunc(list, func(p Process) bool {
		parent, known := byPID[p.parent]
		return known && slices.Equal(parent.Args, p.Args)
	})
}

// processOf reads what a process was started as; false when it is gone, or ended
// and not yet waited for.
func processOf(pid int) (Process, bool) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(line) == 0 {
		return Process{}, false
	}
	args := strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")
	p := Process{PID: pid, Args: args, Role: RoleOther, parent: parentOf(pid)}
	program := filepath.Base(args[0])
	switch {
	case program == "tart-kubelet" && slices.Contains(args, "shim"):
		p.Role = RoleShim
	case program == "tart-kubelet":
		p.Role = RoleAgent
	case len(args) > 2 && args[1] == "run":
		p.Role, p.Machine = RoleRun, machineIn(args[2:])
	case len(args) > 1 && strings.HasPrefix(args[1], "__guest"):
		p.Role, p.Machine = RoleGuest, machineIn(args[2:])
	}
	return p, true
}

func parentOf(pid int) int {
	fields, err := statOf(pid)
	if err != nil {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

const machinePrefix = "tk-"

func machineIn(args []string) string {
	for _, a := range args {
		if strings.HasPrefix(a, machinePrefix) {
			return a
		}
	}
	return ""
}

// OwnerOf is the Pod that a machine belongs to, and its attempt; false for machines
// that are not the agent's.
func OwnerOf(machine string) (uid types.UID, attempt string, ours bool) {
	rest, ours := strings.CutPrefix(machine, machinePrefix)
	dash := strings.LastIndex(rest, "-")
	if !ours || dash < 1 {
		return "", "", false
	}
	return types.UID(rest[:dash]), rest[dash+1:], true
}

// Descriptors counts what a process has open.
func Descriptors(pid int) (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, fmt.Errorf("counting open files: %w", err)
	}
	return len(entries), nil
}

// Usage of a process so far.
type Usage struct {
	// RSS is resident memory in bytes, Ticks is CPU time in units of 10 ms.
	RSS, Ticks int64
}

// UsageOf reads /proc.
func UsageOf(pid int) (Usage, error) {
	fields, err := statOf(pid)
	if err != nil {
		return Usage{}, err
	}
	const utime, stime, rss = 11, 12, 21
	var n [3]int64
	for i, at := range []int{utime, stime, rss} {
		if n[i], err = strconv.ParseInt(fields[at], 10, 64); err != nil {
			return Usage{}, fmt.Errorf("reading /proc/%d/stat: %w", pid, err)
		}
	}
	return Usage{RSS: n[2] * int64(os.Getpagesize()), Ticks: n[0] + n[1]}, nil
}

// statOf are the fields of /proc/PID/stat after the name.
func statOf(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, fmt.Errorf("reading what a process uses: %w", err)
	}
	// The name, in parentheses, may hold anything.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 22 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}
