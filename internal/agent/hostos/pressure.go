package hostos

// Pressure says what the host is short of.
type Pressure struct {
	// Memory: the kernel asks processes to give memory back.
	Memory bool
	// MemoryCritical: compressing and swapping do not keep up any more.
	MemoryCritical bool
	// Processes: fewer than a twentieth of the kernel's process slots are free.
	Processes bool
}
