package figure

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Machine is what a run was made on. What a system does not tell is left empty.
type Machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	MemoryMB  int64  `json:"memoryMB"`
	Kernel    string `json:"kernel"`
	Go        string `json:"go"`
	// BusyAtStart is the share of all cores that somebody used in the second before the run: others
	// at work spoil times. The load does not tell, as one part of the benches comes after the other.
	BusyAtStart float64 `json:"busyAtStart"`
	// LoadAtStart and LoadAtEnd are the means of runnable processes over a minute, five and fifteen.
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

// quiet is a machine on which little else is at work.
const quiet = 0.1

// Quiet says whether the run had the machine for itself at its start.
func (m Machine) Quiet() bool { return m.BusyAtStart <= quiet }

// busyNow looks for a second at how much of all cores is in use.
func busyNow() float64 {
	before := read("/proc/stat")
	time.Sleep(time.Second)
	return busyBetween(before, read("/proc/stat"))
}

// busyBetween is the share of all cores' time that was not idle between two looks at /proc/stat. Where
// there is none, all of it was: nobody knows that the machine was quiet.
func busyBetween(before, after string) float64 {
	idleBefore, allBefore := ticks(before)
	idleAfter, allAfter := ticks(after)
	if allAfter <= allBefore {
		return 1
	}
	return rounded(1-float64(idleAfter-idleBefore)/float64(allAfter-allBefore), 3)
}

// ticks of all cores since the boot, those that were idle or waited for a disk, and all.
func ticks(stat string) (idle, all int64) {
	const idleColumn, diskColumn = 4, 5
	line, _, _ := strings.Cut(stat, "\n")
	for i, word := range strings.Fields(line) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			continue // the line's name
		}
		all += n
		if i == idleColumn || i == diskColumn {
			idle += n
		}
	}
	return idle, all
}

func (m Machine) String() string {
	what := "with nothing else at work"
	if !m.Quiet() {
		what = "shared with other work"
	}
	return fmt.Sprintf("%d cores of %s, %.1f GB, %s, Go %s, %s (%.0f %% in use before the start; load %s at the start, %s at the end)",
		m.Cores, m.Processor, float64(m.MemoryMB)/1000, m.Kernel, m.Go, what, 100*m.BusyAtStart, first(m.LoadAtStart), first(m.LoadAtEnd))
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
