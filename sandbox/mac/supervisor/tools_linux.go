package supervisor

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/sandbox/mac/apfs"
	"github.com/macfleet/macfleet/sandbox/mac/newsyslog"
	"github.com/macfleet/macfleet/sandbox/mac/pmset"
	"github.com/macfleet/macfleet/sandbox/mac/sshconf"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

const softwareUpdate = "/Library/Preferences/com.apple.SoftwareUpdate"

// startTools makes the disk and the power settings as this boot finds them.
func (p *pid1) startTools() error {
	quirk := func(of func(wire.Quirks) bool) func() bool {
		return func() bool { return of(p.quirk()) }
	}
	var err error
	p.disk, err = apfs.Boot(apfs.Options{
		Volumes: p.state.volumes(), Save: p.state.setVolumes, Seed: p.cfg.Facts.Serial,
		Size:          func() int64 { return int64(p.world().Facts.DiskBytes) },
		Used:          func() int64 { return int64(p.world().Facts.DiskUsed) },
		AddFails:      quirk(func(q wire.Quirks) bool { return q.AddVolumeFails }),
		Busy:          quirk(func(q wire.Quirks) bool { return q.VolumesBusy }),
		StayUnmounted: quirk(func(q wire.Quirks) bool { return q.VolumesStayUnmounted }),
		MountRAM:      mountRAM,
		UnmountRAM:    func(dir string) error { return unix.Unmount(dir, unix.MNT_DETACH) },
	})
	if err != nil {
		return fmt.Errorf("mounting volumes: %w", err)
	}
	power := p.state.power()
	if p.quirk().PowerForgets {
		power = nil
	}
	p.power = pmset.New(pmset.Options{
		Changed: power, Save: p.state.setPower,
		Refuses: quirk(func(q wire.Quirks) bool { return q.PowerRefused }),
	})
	return nil
}

// mountRAM has the kernel keep a RAM disk, so that it goes with the boot.
func mountRAM(dir string, bytes int64) error {
	return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=0755,size=%d", bytes))
}

// tool does the work of a command for a shim.
func (s *shim) tool(c wire.ToolCall) wire.Answer {
	p, uid := s.p, s.who.UID
	switch c.Name {
	case "defaults":
		return p.prefs.Defaults(uid, c.Args)
	case "diskutil":
		return p.disk.Diskutil(uid, c.Args)
	case "df":
		return p.disk.DF(c.Dir, c.Args)
	case "killall":
		return p.killall(uid)
	case "hdiutil":
		return p.disk.HDIUtil(uid, c.Args)
	case "newfs_hfs":
		return p.disk.NewfsHFS(uid, c.Args)
	case "newsyslog":
		return newsyslog.Run(newsyslog.Options{UID: uid, Dir: c.Dir, Own: p.ownNamed, Signal: notify}, c.Args)
	case "pmset":
		return p.power.Pmset(uid, c.Args)
	case "softwareupdate":
		return p.softwareupdate(uid, c.Args)
	case "sshd":
		return sshconf.SSHD(uid, c.Dir, c.Args, p.cfg.Address, fmt.Sprint(p.cfg.Port))
	}
	return wire.Answer{Error: "no tool " + c.Name}
}

// ownNamed records an owner as newsyslog names it; without a name it is root.
func (p *pid1) ownNamed(path, owner string) error {
	user, _, _ := strings.Cut(owner, ":")
	uid, err := p.uid(user)
	if err != nil {
		return err
	}
	return p.own(path, uid)
}

// notify sends a signal by its number on macOS, where it differs from Linux'.
func notify(pid, signal int) error {
	here := map[int]syscall.Signal{10: unix.SIGBUS, 16: unix.SIGURG, 30: unix.SIGUSR1, 31: unix.SIGUSR2}
	if sig, differs := here[signal]; differs {
		return unix.Kill(pid, sig)
	}
	return unix.Kill(pid, syscall.Signal(signal))
}

// softwareupdate never finds anything and knows whether it looks by itself.
func (p *pid1) softwareupdate(uid int, args []string) wire.Answer {
	switch line := strings.Join(args, " "); line {
	case "--list", "-l":
		return wire.Answer{
			Stdout: "Software Update Tool\n\nFinding available software\n", Stderr: "No new software available.\n",
		}
	case "--schedule":
		word := "on"
		a := p.prefs.Defaults(wire.RootUID, []string{"read", softwareUpdate, "AutomaticCheckEnabled"})
		if a.RC == 0 && strings.TrimSpace(a.Stdout) == "0" {
			word = "off"
		}
		return wire.Answer{Stdout: "Automatic checking for updates is turned " + word + "\n"}
	case "--schedule on", "--schedule off":
		if uid != wire.RootUID {
			return wire.Answer{RC: 1, Stderr: "softwareupdate: Must be run as root\n"}
		}
		value := fmt.Sprint(line == "--schedule on")
		a := p.prefs.Defaults(uid, []string{"write", softwareUpdate, "AutomaticCheckEnabled", "-bool", value})
		if a.RC == 0 {
			a = p.softwareupdate(uid, []string{"--schedule"})
		}
		return a
	default:
		return wire.Answer{
			RC: usageRC, Stderr: "softwareupdate: not modelled: " + line + "\n", Unmodelled: "softwareupdate " + line,
		}
	}
}

// usageRC is EX_USAGE, of a form that is not modelled.
const usageRC = 64
