package prefs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howett.net/plist"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

func newStore(t *testing.T, fresh bool) *Store {
	t.Helper()
	return New(Options{
		Username: "m1", PlatformUUID: "HOST", Root: t.TempDir(), Fresh: func() bool { return fresh },
	})
}

const loginwindow = "/Library/Preferences/com.apple.loginwindow"

// step is one command and its outcome; err is a part of what it says.
type step struct {
	uid  int
	line string
	rc   int
	out  string
	err  string
}

func (s *Store) try(t *testing.T, steps ...step) {
	t.Helper()
	for _, st := range steps {
		got := s.Defaults(st.uid, strings.Split(st.line, "|"))
		if got.RC != st.rc || got.Stdout != st.out || !strings.Contains(got.Stderr, st.err) {
			t.Errorf("%s: %+v, want %+v", st.line, got, st)
		}
	}
}

func TestDefaults(t *testing.T) {
	s := newStore(t, false)
	s.try(t,
		step{0, "read|" + loginwindow, 1, "", "Domain " + loginwindow + " does not exist"},
		step{0, "read|" + loginwindow + "|autoLoginUser", 1, "", "The domain/default pair of (" + loginwindow + ", autoLoginUser) does not exist"},
		step{501, "write|" + loginwindow + "|autoLoginUser|-string|m1", 1, "", "Could not write domain"},
		step{0, "write|" + loginwindow + "|autoLoginUser|-string|m1", 0, "", ""},
		step{501, "read|" + loginwindow + ".plist|autoLoginUser", 0, "m1\n", ""},
		step{0, "write|" + loginwindow + "|DisableScreenLock|-bool|true", 0, "", ""},
		step{0, "read|" + loginwindow + "|DisableScreenLock", 0, "1\n", ""},
		step{0, "read-type|" + loginwindow + "|DisableScreenLock", 0, "Type is boolean\n", ""},
		step{0, "write|" + loginwindow + "|n|-int|600", 0, "", ""},
		step{0, "read|" + loginwindow + "|n", 0, "600\n", ""},
		step{0, "read-type|" + loginwindow + "|n", 0, "Type is integer\n", ""},
		step{0, "write|" + loginwindow + "|n|-int|many", 1, "", "leaving defaults unchanged"},
		step{0, "write|" + loginwindow + "|b|-bool|maybe", 1, "", "leaving defaults unchanged"},
		step{0, "write|" + loginwindow + "|l|-array|a|b", 0, "", ""},
		step{0, "read-type|" + loginwindow + "|l", 0, "Type is array\n", ""},
		step{0, "write|" + loginwindow + "|d|-dict|DHCPLeaseTimeSecs|-int|600", 0, "", ""},
		step{0, "read|" + loginwindow + "|d", 0, "{\n    DHCPLeaseTimeSecs = 600;\n}\n", ""},
		step{0, "write|" + loginwindow + "|d|-dict-add|other|word", 0, "", ""},
		step{0, "read|" + loginwindow + "|d", 0, "{\n    DHCPLeaseTimeSecs = 600;\n    other = word;\n}\n", ""},
		step{0, "write|" + loginwindow + "|d|-dict|alone", 1, "", "lacks a corresponding value"},
		step{0, "delete|" + loginwindow + "|autoLoginUser", 0, "", ""},
		step{0, "delete|" + loginwindow + "|autoLoginUser", 1, "", "not found"},
		step{0, "delete|com.apple.nothing|x", 1, "", "Defaults have not been changed"},
		step{0, "export|com.apple.none|-", 0, exported(t, map[string]any{}), ""},
		step{0, "export|" + loginwindow + "|-", 0, exported(t, map[string]any{
			"DisableScreenLock": true, "n": 600, "l": []string{"a", "b"}, "d": map[string]any{"DHCPLeaseTimeSecs": 600, "other": "word"},
		}), ""},
		step{0, "export|" + loginwindow + "|/tmp/x.plist", 64, "", "not modelled"},
		step{0, "domains", 64, "", "not modelled"},
		step{0, "write|x|y|-date|z", 64, "", "not modelled"},
	)
}

func exported(t *testing.T, values any) string {
	t.Helper()
	data, err := plist.MarshalIndent(values, plist.XMLFormat, "\t")
	if err != nil {
		t.Fatal(err)
	}
	return string(data) + "\n"
}

func TestDomainsArePerUserAndPerHost(t *testing.T) {
	s := newStore(t, false)
	s.try(
		t,
		step{0, "write|com.apple.screensaver|idleTime|-int|1", 0, "", ""},
		step{501, "write|com.apple.screensaver|idleTime|-int|2", 0, "", ""},
		step{501, "-currentHost|write|com.apple.screensaver|idleTime|-int|3", 0, "", ""},
		step{0, "read|com.apple.screensaver|idleTime", 0, "1\n", ""},
		step{501, "read|com.apple.screensaver|idleTime", 0, "2\n", ""},
		step{501, "-currentHost|read|com.apple.screensaver|idleTime", 0, "3\n", ""},
		step{501, "write|-g|AppleLanguages|(de,en)", 0, "", ""},
	)
	for _, path := range []string{
		"var/root/Library/Preferences/com.apple.screensaver.plist", "Users/m1/Library/Preferences/com.apple.screensaver.plist",
		"Users/m1/Library/Preferences/ByHost/com.apple.screensaver.HOST.plist", "Users/m1/Library/Preferences/.GlobalPreferences.plist",
	} {
		data, err := os.ReadFile(filepath.Join(s.o.Root, path))
		if err != nil || !strings.HasPrefix(string(data), "bplist00") {
			t.Errorf("%s: %.8q, %v", path, data, err)
		}
	}
}

// An edit of the file behind the daemon's back is not seen, unless its memory
// is off.
func TestEditsOfTheFile(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		s := newStore(t, fresh)
		s.try(t, step{0, "write|" + loginwindow + "|autoLoginUser|m1", 0, "", ""})
		data, err := plist.Marshal(map[string]any{"autoLoginUser": "m2"}, plist.XMLFormat)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.o.Root, loginwindow+".plist"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{false: "m1", true: "m2"}[fresh]
		s.try(t, step{0, "read|" + loginwindow + "|autoLoginUser", 0, want + "\n", ""})
		again := New(s.o)
		if got := again.String(loginwindow+".plist", "autoLoginUser"); got != "m2" {
			t.Errorf("after a boot: %q", got)
		}
	}
}

func TestOwnerIsTold(t *testing.T) {
	s := newStore(t, false)
	told := map[string]int{}
	s.o.Own = func(path string, uid int) error {
		told[path] = uid
		return nil
	}
	s.try(t, step{501, "write|com.apple.x|k|v", 0, "", ""})
	if uid, ok := told["/Users/m1/Library/Preferences/com.apple.x.plist"]; !ok || uid != wire.UserUID {
		t.Errorf("told %v", told)
	}
}
