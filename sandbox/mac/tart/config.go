package tart

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
)

const (
	osDarwin = "darwin"
	osLinux  = "linux"

	mebibyte = 1 << 20
)

// vmConfig is config.json. ECID and HardwareModel are base64 and only macOS guests
// have them; sizes are bytes.
type vmConfig struct {
	Version       int     `json:"version"`
	OS            string  `json:"os"`
	Arch          string  `json:"arch"`
	ECID          []byte  `json:"ecid,omitempty"`
	HardwareModel []byte  `json:"hardwareModel,omitempty"`
	CPUCountMin   int     `json:"cpuCountMin"`
	CPUCount      int     `json:"cpuCount"`
	MemorySizeMin int64   `json:"memorySizeMin"`
	MemorySize    int64   `json:"memorySize"`
	MACAddress    string  `json:"macAddress"`
	Display       display `json:"display"`
	DisplayRefit  *bool   `json:"displayRefit,omitempty"`
	DiskFormat    string  `json:"diskFormat"`
}

type display struct {
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Unit   string `json:"unit,omitempty"`
}

func (d display) String() string { return fmt.Sprintf("%dx%d%s", d.Width, d.Height, d.Unit) }

func (vm vmDir) readConfig() (vmConfig, error) {
	var cfg vmConfig
	data, err := os.ReadFile(vm.config())
	if err != nil {
		return cfg, fmt.Errorf("reading a VM's configuration: %w", err)
	}
	if err := json.Unmarshal(data, &cfg); err != nil {
		return cfg, fmt.Errorf("parsing %s: %w", vm.config(), err)
	}
	return cfg, nil
}

// writeConfig writes in place: a rename would leave a running VM's lock behind on the
// old file.
func (vm vmDir) writeConfig(cfg vmConfig) error {
	data, err := json.MarshalIndent(cfg, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding a VM's configuration: %w", err)
	}
	if err := os.WriteFile(vm.config(), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing a VM's configuration: %w", err)
	}
	return nil
}

// renewMAC gives the VM a new address. A saved state is bound to the old one and goes.
func (vm vmDir) renewMAC() error {
	cfg, err := vm.readConfig()
	if err != nil {
		return err
	}
	if err := os.Remove(vm.saved()); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("deleting a saved state: %w", err)
	}
	cfg.MACAddress = randomMAC()
	return vm.writeConfig(cfg)
}

func randomMAC() string {
	b := make([]byte, 6)
	_, _ = rand.Read(b) // never fails
	return localMAC(b)
}

// localMAC makes the first six bytes a locally administered unicast address.
func localMAC(b []byte) string {
	mac := append(net.HardwareAddr(nil), b[:6]...)
	mac[0] = mac[0]&^1 | 2
	return mac.String()
}
