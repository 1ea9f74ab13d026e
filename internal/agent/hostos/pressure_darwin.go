package hostos

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Levels of kern.memorystatus_vm_pressure_level; 1 is normal.
const (
	pressureWarn     = 2
	pressureCritical = 4
)

// ReadPressure asks the kernel.
func ReadPressure() (Pressure, error) {
	level, err := unix.SysctlUint32("kern.memorystatus_vm_pressure_level")
	if err != nil {
		return Pressure{}, fmt.Errorf("reading the memory pressure: %w", err)
	}
	// kern.num_tasks would be the limit, not the count.
	processes, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return Pressure{}, fmt.Errorf("counting processes: %w", err)
	}
	limit, err := unix.SysctlUint32("kern.maxproc")
	if err != nil {
		return Pressure{}, fmt.Errorf("reading the limit of processes: %w", err)
	}
	return Pressure{Memory: level >= pressureWarn, MemoryCritical: level >= pressureCritical, Processes: uint32(len(processes)) > limit-limit/20}, nil
}
