package tart

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// lease is one block of the DHCP lease file. hardware is "1,<mac>" with octets that
// are not zero padded; a Linux guest sends "ff,<duid>", which holds no MAC at all.
type lease struct {
	ip, hardware string
	expires      time.Time
}

// etherHardware writes a MAC the way bootpd does: no leading zeros.
func etherHardware(mac string) string {
	parts := strings.Split(mac, ":")
	for i, p := range parts {
		if parts[i] = strings.TrimLeft(p, "0"); parts[i] == "" {
			parts[i] = "0"
		}
	}
	return "1," + strings.Join(parts, ":")
}

// duidHardware stands for the client identifier of a Linux guest.
func duidHardware(mac string) string {
	sum := sha256.Sum256([]byte(mac))
	return fmt.Sprintf("ff,0:0:0:2:0:0:ab:11:%x:%x:%x:%x", sum[0], sum[1], sum[2], sum[3])
}

func (l lease) String() string {
	return fmt.Sprintf("{\n\tname=guest\n\tip_address=%s\n\thw_address=%s\n\tidentifier=%s\n\tlease=0x%x\n}\n",
		l.ip, l.hardware, l.hardware, l.expires.Unix())
}

func readLeases(path string) ([]lease, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the DHCP leases: %w", err)
	}
	var leases []lease
	for _, block := range strings.Split(string(data), "}") {
		var l lease
		for _, line := range strings.Split(block, "\n") {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch key {
			case "ip_address":
				l.ip = value
			case "hw_address":
				l.hardware = value
			case "lease":
				seconds, _ := strconv.ParseInt(value, 0, 64)
				l.expires = time.Unix(seconds, 0)
			}
		}
		if l.ip != "" {
			leases = append(leases, l)
		}
	}
	return leases, nil
}

// dhcp is the server of a Mac's shared network.
type dhcp struct {
	File    string        `json:"file"`
	Lock    string        `json:"lock"` // stands for there being one server
	Network string        `json:"network"`
	Time    time.Duration `json:"time"`
}

// grant renews the lease of a client or gives it the lowest free address. An address
// is free again only when its lease has expired. ok is false when the pool is empty.
func (d dhcp) grant(hardware string, now time.Time) (ok bool, err error) {
	if err := os.MkdirAll(filepath.Dir(d.Lock), 0o755); err != nil {
		return false, fmt.Errorf("preparing the DHCP lock: %w", err)
	}
	if err := touchFile(d.Lock); err != nil {
		return false, fmt.Errorf("preparing the DHCP lock: %w", err)
	}
	lock, err := flock(d.Lock)
	if err != nil {
		return false, err
	}
	defer lock.close()
	leases, err := readLeases(d.File)
	if err != nil {
		return false, err
	}
	leases, ok = d.add(leases, hardware, now)
	if !ok {
		return false, nil
	}
	return true, d.write(leases)
}

func (d dhcp) add(leases []lease, hardware string, now time.Time) ([]lease, bool) {
	used := map[string]bool{}
	var kept []lease
	mine := lease{hardware: hardware, expires: now.Add(d.Time)}
	for _, l := range leases {
		switch {
		case l.hardware == hardware:
			mine.ip = l.ip
		case l.expires.After(now):
			used[l.ip] = true
			kept = append(kept, l)
		}
	}
	if mine.ip == "" || used[mine.ip] {
		mine.ip = d.free(used)
	}
	return append(kept, mine), mine.ip != ""
}

// free leaves out .1, the Mac itself, and .255, the broadcast address.
func (d dhcp) free(used map[string]bool) string {
	for host := 2; host < 255; host++ {
		if ip := fmt.Sprintf("%s.%d", d.Network, host); !used[ip] {
			return ip
		}
	}
	return ""
}

// write replaces the file in one step, since readers take no lock.
func (d dhcp) write(leases []lease) error {
	var b strings.Builder
	for _, l := range leases {
		b.WriteString(l.String())
	}
	next := d.File + ".next"
	if err := os.WriteFile(next, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("writing the DHCP leases: %w", err)
	}
	return os.Rename(next, d.File)
}

// resolve finds the newest lease of a MAC that has not expired, whether or not its VM
// is running.
func resolve(leases []lease, mac string, now time.Time) string {
	var best lease
	for _, l := range leases {
		if l.hardware == etherHardware(mac) && l.expires.After(now) && l.expires.After(best.expires) {
			best = l
		}
	}
	if net.ParseIP(best.ip) == nil {
		return ""
	}
	return best.ip
}

func (c *cli) ip(ctx context.Context, args []string) error {
	a := newArguments("ip <name> [--wait <seconds>] [--resolver <resolver>]")
	wait := a.Uint16("wait", 0, "")
	resolver := a.String("resolver", "dhcp", "")
	words, err := a.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if r := *resolver; r != "dhcp" && r != "arp" && r != "agent" {
		return a.wrong("The value '%s' is invalid for '--resolver <resolver>'", r)
	}
	vm, err := c.home.local(words[0])
	if err != nil {
		return err
	}
	cfg, err := vm.readConfig()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(time.Duration(*wait) * time.Second)
	for {
		if *resolver == "dhcp" {
			leases, err := readLeases(c.leaseFile)
			if err != nil {
				return err
			}
			if ip := resolve(leases, cfg.MACAddress, time.Now()); ip != "" {
				c.printf("%s\n", ip)
				return nil
			}
		}
		// tart waits a second after every miss, the last one included.
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
		if !time.Now().Before(deadline) {
			return noAddress(*resolver)
		}
	}
}

func noAddress(resolver string) error {
	message := "no IP address found, is your VM running?"
	if resolver == "agent" {
		message += " (also make sure that Guest agent for Tart is running inside of a VM)"
	}
	return runtimeError(message)
}
