//go:build !darwin

package hostos

// ReadPressure reports none: away from macOS the agent runs for tests only, and
// the pressure of the machine below is not that of the Mac it plays.
func ReadPressure() (Pressure, error) { return Pressure{}, nil }
