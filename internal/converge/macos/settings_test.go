package macos

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePower(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]string
	}{
		"desktop":   {"AC Power:\n womp                 1\n autorestart          1\n sleep                0 (sleep prevented by caffeinate)\n", map[string]string{"womp": "1", "autorestart": "1", "sleep": "0"}},
		"portable":  {"Battery Power:\n sleep 1\nAC Power:\n sleep 0\n", map[string]string{"sleep": "0"}},
		"empty":     {"", map[string]string{}},
		"headless":  {"sleep 0\n", map[string]string{}},
		"half line": {"AC Power:\nsleep\n", map[string]string{}},
	} {
		if diff := cmp.Diff(c.want, parsePower(c.text)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestParseSSHD(t *testing.T) {
	want := map[string]string{
		"port": "22", "allowusers": "m1 m2", "authorizedkeysfile": ".ssh/authorized_keys .ssh/scw_authorized_keys",
	}
	text := "port 22\nAllowUsers m1\nallowusers m2\nauthorizedkeysfile .ssh/authorized_keys .ssh/scw_authorized_keys\nalone\n\n"
	if diff := cmp.Diff(want, parseSSHD(text)); diff != "" {
		t.Error(diff)
	}
}

func TestAquaIsLookedForInTheDomainItself(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"aqua":       {"gui/501 = {\n\ttype = login\n\tsession = Aqua\n}", true},
		"background": {"gui/501 = {\n\tsession = Background\n\tservices = {\n\t\tsession = Aqua\n\t}\n}", false},
		"none":       {"", false},
		"unbalanced": {"}\n}\nsession = Aqua", false},
	} {
		if got := isAqua(c.text); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestParseFree(t *testing.T) {
	const head = "Filesystem 1024-blocks Used Available Capacity iused ifree %iused Mounted on\n"
	if got, err := parseFree(head + "/dev/disk3s5 239362496 100000000 123456789 45% 1 2 0% /System/Volumes/Data\n"); err != nil || got != 123456789<<10 {
		t.Errorf("%d, %v", got, err)
	}
	for _, text := range []string{"", head, head + "a b c", head + "a b c -1 d", head + "a b c 99999999999999999999 d", head + "a b c x"} {
		if got, err := parseFree(text); err == nil {
			t.Errorf("%q is %d bytes", text, got)
		}
	}
}

func TestParseVolume(t *testing.T) {
	text := `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
<key>APFSContainerReference</key><string>disk3</string>
<key>CapacityQuota</key><integer>100000000000</integer>
<key>GlobalPermissionsEnabled</key><true/>
<key>MountPoint</key><string>/Volumes/macfleet</string>
<key>VolumeName</key><string>macfleet</string>
<key>VolumeUUID</key><string>7A0F</string>
<key>Other</key><array><string>x</string></array>
</dict></plist>`
	want := volumeInfo{
		VolumeUUID: "7A0F", VolumeName: "macfleet", MountPoint: "/Volumes/macfleet", APFSContainerReference: "disk3",
		CapacityQuota: 100000000000, GlobalPermissionsEnabled: true,
	}
	got, err := parseVolume(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"Could not find disk: x", "<plist><dict>", "<plist version=\"1.0\"><string>x</string></plist>"} {
		if got, err := parseVolume(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// A volume that is taken for gone costs the Mac: only the words for that mean it.
func TestOnlyAVolumeThatIsNotFoundIsGone(t *testing.T) {
	const head = `<plist version="1.0"><dict><key>Error</key><true/><key>ErrorMessage</key><string>`
	exit := func(text string) error { return &commandError{Command: "diskutil", Code: 1, Text: text} }
	for name, c := range map[string]struct {
		out   string
		ended error
		gone  bool
		says  string
	}{
		"gone":                 {head + "Could not find disk: 7A0F</string></dict></plist>", exit("<plist>"), true, ""},
		"gone, in plain words": {"", exit("Could not find disk: 7A0F"), true, ""},
		"another error":        {head + "Unable to access the DiskManagement framework</string></dict></plist>", exit("<plist>"), false, "DiskManagement"},
		"an error, no words":   {`<plist version="1.0"><dict><key>Error</key><true/></dict></plist>`, nil, false, "diskutil says of 7A0F"},
		"no property list":     {"", exit("Unable to run because unable to use the DiskManagement framework"), false, "exit 1"},
		"nothing at all":       {"", exit(""), false, "exit 1"},
		"cut off":              {"<plist><dict>", nil, false, "not a property list"},
		"killed":               {"", context.DeadlineExceeded, false, "deadline"},
	} {
		_, err := readInfo("7A0F", c.out, c.ended)
		if err == nil || errors.Is(err, fs.ErrNotExist) != c.gone || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if info, err := readInfo("7A0F", `<plist version="1.0"><dict><key>VolumeUUID</key><string>7A0F</string></dict></plist>`, nil); err != nil || info.VolumeUUID != "7A0F" {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestExportedDefaults(t *testing.T) {
	all, err := parseDomain(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>on</key><true/>
	<key>off</key><false/>
	<key>idle</key><integer>600</integer>
	<key>user</key><string>m1</string>
	<key>blob</key><data>AAEC</data>
	<key>when</key><date>2026-11-22T01:00:00Z</date>
	<key>bootpd</key><dict><key>DHCPLeaseTimeSecs</key><integer>600</integer></dict>
</dict>
</plist>
`)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"on": "1", "off": "0", "idle": "600", "user": "m1"} {
		if got := printedDefault(all[key]); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if got := leaseSeconds(all["bootpd"]); got != 600 {
		t.Errorf("a lease of %d s, want 600", got)
	}
	if all, err := parseDomain("<plist version=\"1.0\">\n<dict/>\n</plist>\n"); err != nil || len(all) > 0 {
		t.Errorf("a domain that is not there: %v, %v", all, err)
	}
	for _, text := range []string{"", "<plist><array/></plist>", "defaults: no\n", "<plist><dict><key>a"} {
		if all, err := parseDomain(text); err == nil {
			t.Errorf("%q is %v", text, all)
		}
	}
}

func TestMissingDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		said string
		want bool
	}{
		"key":     {"2026-11-22 01:00:00.000 defaults[4711:90] \nThe domain/default pair of (x, y) does not exist", true},
		"domain":  {"2026-11-22 01:00:00.000 defaults[4711:90] \nDomain x does not exist", true},
		"delete":  {"2026-11-22 01:00:00.000 defaults[4711:90] \nDomain (x) not found.\nDefaults have not been changed.", true},
		"refused": {"2026-11-22 01:00:00.000 defaults[4711:90] Could not write domain x; exiting", false},
	} {
		_, err := run(t.Context(), "/bin/sh", "-c", `echo "$1" >&2; exit 1`, "sh", c.said)
		if got := isMissingDefault(err); got != c.want {
			t.Errorf("%s: %v (%v)", name, got, err)
		}
	}
	for _, err := range []error{nil, errors.New("killed"), &commandError{Code: 127, Complaint: "defaults: not found"}} {
		if isMissingDefault(err) {
			t.Errorf("%v means missing", err)
		}
	}
}

func FuzzHostileOutput(f *testing.F) {
	f.Add("AC Power:\n sleep 0\n")
	f.Add("gui/501 = {\n\tsession = Aqua\n}")
	f.Add("<plist version=\"1.0\"><dict><key>VolumeUUID</key><integer>3</integer></dict></plist>")
	f.Fuzz(func(_ *testing.T, text string) {
		parsePower(text)
		parseSSHD(text)
		isAqua(text)
		_, _ = parseFree(text)
		_, _ = parseVolume(text)
		_, _ = parseDomain(text)
	})
}

func TestBanner(t *testing.T) {
	for name, c := range map[string]struct {
		says string
		want string
	}{
		"sshd":       {"SSH-2.0-OpenSSH_10.0\r\n", ""},
		"after talk": {"hello\r\nSSH-2.0-OpenSSH_10.0\r\n", ""},
		"other":      {"220 mail ready\r\n", "no SSH server"},
		"nothing":    {"", "no SSH server"},
		"endless":    {strings.Repeat("x", 64<<10), "says nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() {
				c2, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c2.Write([]byte(c.says))
				_ = c2.Close()
			}()
			err = readBanner(context.Background(), l.Addr().String())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) && name != "endless" {
				t.Errorf("got %v", err)
			}
		})
	}
}
