package shims

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

func swVers(c *call) int {
	values := map[string]string{
		"ProductName": "macOS", "ProductVersion": c.world.Facts.OSVersion, "BuildVersion": c.world.Facts.Build,
	}
	if len(c.args) == 0 {
		fmt.Fprintf(c.out, "ProductName:\t\t%s\nProductVersion:\t\t%s\nBuildVersion:\t\t%s\n",
			values["ProductName"], values["ProductVersion"], values["BuildVersion"])
		return 0
	}
	for key, v := range values {
		if len(c.args) == 1 && strings.EqualFold(strings.TrimLeft(c.args[0], "-"), key) {
			fmt.Fprintln(c.out, v)
			return 0
		}
	}
	return c.unmodelled(strings.Join(c.args, " "))
}

func uname(c *call) int {
	f, rest, ok := c.parse("amnprsv", "")
	if !ok || len(rest) > 0 {
		return rcUsage
	}
	major, _ := strconv.Atoi(strings.Split(c.world.Facts.OSVersion, ".")[0])
	release := fmt.Sprintf("%d.0.0", darwinMajor(major))
	version := "Darwin Kernel Version " + release + ": root:xnu/RELEASE_ARM64"
	var out []string
	for _, v := range []struct {
		letter byte
		text   string
	}{{'s', "Darwin"}, {'n', c.hostName()}, {'r', release}, {'v', version}, {'m', "arm64"}, {'p', "arm"}} {
		all := f.has('a') && v.letter != 'p'
		if all || f.has(v.letter) || (len(f) == 0 && v.letter == 's') {
			out = append(out, v.text)
		}
	}
	fmt.Fprintln(c.out, strings.Join(out, " "))
	return 0
}

// darwinMajor is the kernel release of a macOS release: 15 runs Darwin 24, and
// since macOS 26 the numbers are one apart.
func darwinMajor(macOS int) int {
	if macOS >= 26 {
		return macOS - 1
	}
	return macOS + 9
}

func sysctl(c *call) int {
	f, names, ok := c.parse("n", "")
	if !ok {
		return rcUsage
	}
	if len(names) == 0 {
		return c.unmodelled("no name")
	}
	values := c.sysctlValues()
	for _, name := range names {
		v, ok := values[name]
		if !ok {
			c.errorf("unknown oid '%s'", name)
			c.reason = "sysctl " + name
			return 1
		}
		if !f.has('n') {
			v = name + ": " + v
		}
		fmt.Fprintln(c.out, v)
	}
	return 0
}

func (c *call) sysctlValues() map[string]string {
	facts := c.world.Facts
	vm := map[bool]string{false: "0", true: "1"}
	return map[string]string{
		"hw.model": facts.Model, "hw.memsize": strconv.FormatUint(facts.MemoryBytes, 10),
		"hw.ncpu": strconv.Itoa(facts.CPUs), "hw.physicalcpu": strconv.Itoa(facts.CPUs),
		"hw.logicalcpu": strconv.Itoa(facts.CPUs), "hw.optional.arm64": "1", "hw.machine": "arm64",
		"machdep.cpu.brand_string": "Apple M2",
		"kern.bootsessionuuid":     c.world.BootSession,
		"kern.boottime": fmt.Sprintf("{ sec = %d, usec = 0 } %s", c.world.BootUnix,
			time.Unix(c.world.BootUnix, 0).UTC().Format(time.ANSIC)),
		"kern.hv_support": vm[!facts.VirtualMachine], "kern.hv_vmm_present": vm[facts.VirtualMachine],
		"kern.osproductversion": facts.OSVersion, "kern.osversion": facts.Build, "kern.ostype": "Darwin",
		"kern.hostname": c.hostName(),
	}
}

// vmStat counts what the Mac's processes hold as active, and a fixed share as the
// system's own.
func vmStat(c *call) int {
	if len(c.args) > 0 {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	all, err := processes()
	if err != nil {
		c.errorf("%v", err)
		return 1
	}
	const page = 16384
	pages := int64(c.world.Facts.MemoryBytes / page) // a Mac has gigabytes
	wired := pages / 8
	active := int64(0)
	for _, p := range all {
		active += p.residentBytes / page
	}
	fmt.Fprintf(c.out, "Mach Virtual Memory Statistics: (page size of %d bytes)\n", page)
	for _, line := range []struct {
		what  string
		count int64
	}{{"free", max(0, pages-wired-active)}, {"active", active}, {"inactive", 0}, {"wired down", wired}, {"occupied by compressor", 0}} {
		fmt.Fprintf(c.out, "%-36s%12s\n", "Pages "+line.what+":", strconv.FormatInt(line.count, 10)+".")
	}
	return 0
}

// id prints identities in the order and form of BSD's id(1).
func id(c *call) int {
	f, rest, ok := c.parse("ugGnpr", "")
	if !ok || f.has('p') || f.has('r') {
		return rcUsage
	}
	uid := c.uid
	if len(rest) > 0 {
		switch rest[0] {
		case "root":
			uid = wire.RootUID
		case c.world.Username:
			uid = wire.UserUID
		default:
			c.errorf("%s: no such user", rest[0])
			return 1
		}
	}
	gids := []int{wire.WheelGID, adminGID}
	if uid != wire.RootUID {
		gids = []int{wire.StaffGID, adminGID}
	}
	number := func(n int, name string) string {
		if f.has('n') {
			return name
		}
		return strconv.Itoa(n)
	}
	switch {
	case f.has('u'):
		fmt.Fprintln(c.out, number(uid, c.userName(uid)))
	case f.has('g'):
		fmt.Fprintln(c.out, number(gids[0], groupName(gids[0])))
	case f.has('G'):
		fmt.Fprintln(c.out, number(gids[0], groupName(gids[0])), number(gids[1], groupName(gids[1])))
	default:
		fmt.Fprintf(c.out, "uid=%d(%s) gid=%d(%s) groups=%d(%s),%d(%s)\n", uid, c.userName(uid),
			gids[0], groupName(gids[0]), gids[0], groupName(gids[0]), gids[1], groupName(gids[1]))
	}
	return 0
}

func whoami(c *call) int {
	fmt.Fprintln(c.out, c.userName(c.uid))
	return 0
}

func ioreg(c *call) int {
	want := map[string]bool{"-rd1 -c IOPlatformExpertDevice": true, "-c IOPlatformExpertDevice -d 2": true, "-d2 -c IOPlatformExpertDevice": true}
	if !want[strings.Join(c.args, " ")] {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	facts := c.world.Facts
	fmt.Fprintf(c.out, "+-o %s  <class IOPlatformExpertDevice, id 0x100000100, registered, matched, active, busy 0 (0 ms), retain 30>\n    {\n", facts.Model)
	for _, kv := range [][2]string{
		{"IOPlatformSerialNumber", `"` + facts.Serial + `"`},
		{"IOPlatformUUID", `"` + facts.PlatformUUID + `"`},
		{"manufacturer", `<"Apple Inc.">`},
		{"model", `<"` + facts.Model + `">`},
	} {
		fmt.Fprintf(c.out, "      %q = %s\n", kv[0], kv[1])
	}
	fmt.Fprint(c.out, "    }\n    \n")
	return 0
}

func fdesetup(c *call) int {
	if strings.Join(c.args, " ") != "status" {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	fmt.Fprintf(c.out, "FileVault is %s.\n", map[bool]string{true: "On", false: "Off"}[c.world.Facts.FileVault])
	if user := c.world.Facts.FileVaultDeferredFor; user != "" {
		fmt.Fprintf(c.out, "Deferred enablement appears to be active for user '%s'.\n", user)
	}
	return 0
}

func csrutil(c *call) int {
	if strings.Join(c.args, " ") != "status" {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	fmt.Fprintln(c.out, "System Integrity Protection status: enabled.")
	return 0
}

func (c *call) hostName() string {
	for _, key := range []string{"HostName", "LocalHostName"} {
		a, err := c.ask(wire.Call{Name: &wire.NameCall{Key: key}})
		if err == nil && a.Found {
			return a.Value
		}
	}
	return "Mac"
}

func hostname(c *call) int {
	f, rest, ok := c.parse("fs", "")
	if !ok {
		return rcUsage
	}
	if len(rest) > 0 {
		return c.unmodelled("setting the name")
	}
	name := c.hostName()
	if f.has('s') {
		name, _, _ = strings.Cut(name, ".")
	}
	fmt.Fprintln(c.out, name)
	return 0
}
