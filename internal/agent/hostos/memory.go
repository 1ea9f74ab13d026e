package hostos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// ReadMemoryInUse returns the bytes of memory that the host cannot give away without
// effort. It asks vm_stat; where there is none, the host is a Linux that plays a Mac.
func ReadMemoryInUse(ctx context.Context, r Runner) (int64, error) {
	out, err := r.Run(ctx, "vm_stat")
	if err == nil {
		return memoryOfVMStat(out)
	}
	info, linuxErr := os.ReadFile("/proc/meminfo")
	if linuxErr != nil {
		return 0, err
	}
	return memoryOfProc(string(info))
}

var (
	pageSizePattern = regexp.MustCompile(`page size of (\d+) bytes`)
	pagesPattern    = regexp.MustCompile(`(?m)^(?:Pages active|Pages wired down|Pages occupied by compressor):\s+(\d+)\.`)
)

func memoryOfVMStat(out string) (int64, error) {
	size := pageSizePattern.FindStringSubmatch(out)
	counts := pagesPattern.FindAllStringSubmatch(out, -1)
	if size == nil || len(counts) == 0 {
		return 0, errors.New("vm_stat prints something else")
	}
	bytes, err := strconv.ParseInt(size[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading vm_stat's numbers: %w", err)
	}
	var pages int64
	for _, count := range counts {
		n, err := strconv.ParseInt(count[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading vm_stat's numbers: %w", err)
		}
		pages += n
	}
	return pages * bytes, nil
}

func memoryOfProc(info string) (int64, error) {
	values := map[string]int64{}
	for l := range strings.Lines(info) {
		fields := strings.Fields(l)
		if len(fields) < 2 {
			continue
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			continue
		}
		values[fields[0]] = n
	}
	if values["MemTotal:"] == 0 {
		return 0, errors.New("/proc/meminfo tells no MemTotal")
	}
	const kibibyte = 1 << 10
	return (values["MemTotal:"] - values["MemAvailable:"]) * kibibyte, nil
}

// ReadThermalPressure returns how much the system slows down to cool: 0 not at all,
// 1 moderate, 2 heavy, 3 trapping, 4 about to sleep.
func ReadThermalPressure(ctx context.Context, r Runner) (int, error) {
	const key = "com.apple.system.thermalpressurelevel"
	out, err := line(ctx, r, "notifyutil", "-g", key)
	if err != nil {
		return 0, err
	}
	level, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(out, key)))
	if err != nil {
		return 0, fmt.Errorf("notifyutil prints %q", out)
	}
	return level, nil
}
