package tart

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
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
	return parseLeases(data), nil
}

func parseLeases(data []byte) []lease {
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
	return leases
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
		ip, err := c.address(ctx, vm, cfg, *resolver)
		if err != nil {
			return err
		}
		if ip != "" {
			c.printf("%s\n", ip)
			return nil
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

// address asks one resolver once. There is no ARP table to look into.
func (c *cli) address(ctx context.Context, vm vmDir, cfg vmConfig, resolver string) (string, error) {
	switch resolver {
	case "agent":
		return askAgent(ctx, vm), nil
	case "arp":
		return "", nil
	}
	leases, err := readLeases(c.leaseFile)
	if err != nil {
		return "", err
	}
	return resolve(leases, cfg.MACAddress, c.now()), nil
}

func noAddress(resolver string) error {
	message := "no IP address found, is your VM running?"
	if resolver == "agent" {
		message += " (also make sure that Guest agent for Tart is running inside of a VM)"
	}
	return runtimeError(message)
}
