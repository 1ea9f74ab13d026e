package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"time"

	"howett.net/plist"

	"github.com/macfleet/macfleet/sandbox/mac/pf"
	"github.com/macfleet/macfleet/sandbox/mac/pf/vmnet"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

const (
	pfConf = "/etc/pf.conf"
	// vmnetPlist and sharingPlist are read when the first guest starts.
	vmnetPlist   = "/Library/Preferences/SystemConfiguration/com.apple.vmnet.plist"
	sharingPlist = "/Library/Preferences/SystemConfiguration/com.apple.InternetSharing.default.plist"
	// raceWindow is how long a load of rules takes where loads may meet: in real
	// time, since what should meet is real processes.
	raceWindow = 300 * time.Millisecond
)

// startNetwork makes the packet filter anew, as every boot does: the rules of the
// disk are loaded, nothing is enabled.
func (p *pid1) startNetwork() error {
	address, err := netip.ParseAddr(p.cfg.Address)
	if err != nil {
		return fmt.Errorf("the Mac's address: %w", err)
	}
	p.net = vmnet.New(vmnet.Options{
		Address: address, Settings: sharedSettings, Window: func() { time.Sleep(raceWindow) },
	})
	p.net.Filter.SetBeliefs(p.cfg.Beliefs)
	text, err := os.ReadFile(pfConf)
	if err == nil {
		err = p.net.Filter.Load("", pfConf, string(text), os.ReadFile)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log("loading the packet filter's rules at boot: " + err.Error()) // a Mac comes up without them
	}
	return nil
}

// sharedSettings are vmnet's, with what the preferences say instead of the
// defaults. What makes no sense is passed over.
func sharedSettings() vmnet.Settings {
	s := vmnet.Defaults()
	net := preferences(vmnetPlist)
	gateway, err := netip.ParseAddr(text(net["Shared_Net_Address"]))
	if err == nil && gateway.Is4() {
		bits := s.Gateway.Bits()
		if mask, err := netip.ParseAddr(text(net["Shared_Net_Mask"])); err == nil && mask.Is4() {
			bits = maskBits(mask)
		}
		s.Gateway = netip.PrefixFrom(gateway, bits)
	}
	bootpd, _ := preferences(sharingPlist)["bootpd"].(map[string]any)
	if seconds, err := strconv.Atoi(text(bootpd["DHCPLeaseTimeSecs"])); err == nil && seconds > 0 {
		s.Lease = time.Duration(seconds) * time.Second
	}
	return s
}

func preferences(path string) map[string]any {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var v map[string]any
	if _, err := plist.Unmarshal(data, &v); err != nil {
		return nil
	}
	return v
}

func text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func maskBits(mask netip.Addr) int {
	n := 0
	for _, b := range mask.As4() {
		for ; b&0x80 != 0; b <<= 1 {
			n++
		}
	}
	return n
}

// answerPF runs a command line of pfctl, which is root's alone.
func (s *shim) answerPF(c wire.PFCall) wire.Answer {
	if s.who.UID != wire.RootUID {
		return wire.Answer{RC: 1, Stderr: "pfctl: /dev/pf: Permission denied\n"}
	}
	r := s.p.net.Filter.Run(pf.Command{Args: c.Args, Stdin: c.Stdin, Read: os.ReadFile, PID: int(s.p.pfctls.Add(1)) + 1000})
	return wire.Answer{RC: r.RC, Stdout: r.Stdout, Stderr: r.Stderr, Unmodelled: r.Unmodelled}
}

// answerNetwork lists interfaces, or takes a guest in until its connection ends.
func (s *shim) answerNetwork(c wire.NetworkCall) wire.Answer {
	n := s.p.net
	if c.Guest == "" {
		return wire.Answer{Network: &wire.NetworkAnswer{Interfaces: n.Interfaces()}}
	}
	if s.guest != "" {
		return wire.Answer{Error: "one guest a connection"}
	}
	s.guest = c.Guest
	live, err := n.Attach()
	if err != nil {
		return wire.Answer{Error: err.Error()}
	}
	return wire.Answer{Network: &wire.NetworkAnswer{Gateway: live.Gateway, LeaseSeconds: int(live.Lease / time.Second)}}
}

// leaveNetwork ends the guest of a connection that has ended, if it had one.
func (s *shim) leaveNetwork() {
	if s.guest == "" {
		return
	}
	if err := s.p.net.Detach(); err != nil {
		s.p.log(err.Error())
	}
}

// obeyPF carries out an order about the packet filter.
func (p *pid1) obeyPF(o *wire.PFOrder) *wire.PFReply {
	switch {
	case o == nil:
		return nil
	case o.Beliefs != nil:
		p.net.Filter.SetBeliefs(*o.Beliefs)
	case o.Packet != nil:
		v := p.net.Filter.Connect(*o.Packet)
		return &wire.PFReply{Verdict: &v}
	case o.Reach != nil:
		path := p.net.Reach(o.Reach.From, o.Reach.To, o.Reach.Proto)
		return &wire.PFReply{Path: &path}
	}
	return &wire.PFReply{}
}
