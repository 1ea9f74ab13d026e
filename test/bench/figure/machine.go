package figure

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// Machine is what a run was made on. What a system does not tell is left empty.
type Machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	MemoryMB  int64  `json:"memoryMB"`
	Kernel    string `json:"kernel"`
	Go        string `json:"go"`
	// LoadAtStart and LoadAtEnd are the means of runnable processes over a minute, five and
	// fifteen: others at work spoil times.
	LoadAtStart string `json:"loadAtStart"`
	LoadAtEnd   string `json:"loadAtEnd"`
}

func thisMachine() Machine {
	return Machine{
		Processor: field(read("/proc/cpuinfo"), "model name"), Cores: runtime.NumCPU(),
		MemoryMB: megabytes(field(read("/proc/meminfo"), "MemTotal")),
		Kernel:   strings.TrimSpace(runtime.GOOS + " " + strings.TrimSpace(read("/proc/sys/kernel/osrelease"))),
		Go:       strings.TrimPrefix(runtime.Version(), "go"), LoadAtStart: load(),
	}
}

// quiet is a machine on which little else was at work when the run began: half a core at most.
const quiet = 0.5

// Quiet says whether the run had the machine for itself at its start.
func (m Machine) Quiet() bool {
	first, _, _ := strings.Cut(m.LoadAtStart, " ")
	value, err := strconv.ParseFloat(first, 64)
	return err == nil && value <= quiet
}

func (m Machine) String() string {
	what := "alone at its start"
	if !m.Quiet() {
		what = "shared with other work"
	}
	return fmt.Sprintf("%d cores of %s, %.1f GB, %s, Go %s, %s (load %s at the start, %s at the end)",
		m.Cores, m.Processor, float64(m.MemoryMB)/1000, m.Kernel, m.Go, what, first(m.LoadAtStart), first(m.LoadAtEnd))
}

func first(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

func load() string {
	fields := strings.Fields(read("/proc/loadavg"))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// read is a file's text, or none.
func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// field is the first value of a name in lines of names and values.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func megabytes(kilobytes string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(kilobytes, " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return n * 1024 / 1e6
}

// Changed ends the name of a commit that there were changes to.
const Changed = " with changes"

// commit is what is measured, and whether there were changes to it.
func commit() string {
	head, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(head))
	if changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output(); err != nil || len(changed) > 0 {
		name += Changed
	}
	return name
}
