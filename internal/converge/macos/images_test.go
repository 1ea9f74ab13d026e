package macos

import "testing"

func TestRAMDevice(t *testing.T) {
	const head, tail = `<plist version="1.0"><dict><key>images</key><array>`, `</array></dict></plist>`
	image := func(path, device, mount string) string {
		return `<dict><key>image-path</key><string>` + path + `</string><key>system-entities</key><array><dict><key>dev-entry</key><string>` + device +
			`</string><key>mount-point</key><string>` + mount + `</string></dict></array></dict>`
	}
	for name, c := range map[string]struct{ list, want string }{
		"none":               {head + tail, ""},
		"ours, real path":    {head + image("ram://524288", "/dev/disk9", "/private/var/db/x") + tail, "/dev/disk9"},
		"ours, as it is":     {head + image("ram://524288", "/dev/disk9", "/var/db/x") + tail, "/dev/disk9"},
		"an image in a file": {head + image("/Users/m1/a.dmg", "/dev/disk9", "/var/db/x") + tail, ""},
		"another's":          {head + image("ram://524288", "/dev/disk8", "/Volumes/ram") + image("ram://524288", "/dev/disk9", "/var/db/x") + tail, "/dev/disk9"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ramDevice(c.list, "/var/db/x"); err != nil || got != c.want {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
	if _, err := ramDevice("hdiutil: no", "/var/db/x"); err == nil {
		t.Error("nonsense is taken for a list")
	}
}
