package accept

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReportsHideWhichMacAndWhose(t *testing.T) {
	r := newRedactor("m1")
	r.hide("C07XX", "serial")
	r.hide("2001:db8::7", "address")
	for text, want := range map[string]string{
		"serial C07XX of m1, not of m10":              "serial <serial> of <user>, not of m10",
		"51.15.3.4:22 and 51.15.3.4.":                 "<address>:22 and <address>.",
		"2a01:e0a::5 and 2001:db8::7":                 "<address> and <address>",
		"192.168.64.1/24 127.0.0.1 169.254.169.254":   "192.168.64.1/24 127.0.0.1 169.254.169.254",
		"fe80::1 ::1 fd00::2":                         "fe80::1 ::1 fd00::2",
		"at 23:15:04, macOS 15.6.1, tart 2.32.1":      "at 23:15:04, macOS 15.6.1, tart 2.32.1",
		"2a01:e0a:1:2:3:4:5:6 on en0":                 "<address> on en0",
		"from 2a01:e0a::5: refused":                   "from <address>: refused",
		"fe80::a4fc:14ff:fe00:1":                      "<address>",
		"6BA7B810-9DAD-11D1-80B4":                     "<uuid>",
		"SHA256:abcdef":                               "<fingerprint>",
		"in /Users/m1, /Users/jane/x, /Users/Shared":  "in /Users/<user>, /Users/<somebody>/x, /Users/Shared",
		"com.company.x.plist, com.apple.y.plist":      "<job>.plist, com.apple.y.plist",
		"/System/Library/LaunchDaemons/ssh.plist":     "/System/Library/LaunchDaemons/ssh.plist",
		"ether a4:fc:14:0:1:2":                        "ether <ether>",
		"6BA7B810-9DAD-11D1-80B4-00C04FD430C8 is one": "<uuid> is one",
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA me":     "<key> me",
		"SHA256:" + strings.Repeat("a", 43):           "<fingerprint>",
		"build " + strings.Repeat("0f", 32):           "build <sha256>",
	} {
		if got := r.text(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// An ordinary word is told by being hidden wherever a Mac prints it.
func TestPasswordsAreHiddenAsWords(t *testing.T) {
	simulated := Simulated{AsDelivered: {"a/b": {"system integrity protection: enabled."}}}
	for _, c := range []struct{ password, text, want string }{
		{"secret7", "it took secret7, not secret70", "it took <password>, not secret70"},
		{`c0rrect "horse"`, `x: c0rrect "horse"`, "x: <password>"},
		{"enabled", "it is enabled", "it is enabled"},
		{"able1", "able1", "able1"},
	} {
		r := newRedactor("m1")
		r.hideWord(c.password, "password", simulated)
		if got := r.text(c.text); got != c.want {
			t.Errorf("%q is shown as %q, want %q", c.text, got, c.want)
		}
	}
}

func TestReportsTakeNoMoreThanTheyShould(t *testing.T) {
	r := newRedactor("m1")
	lines := r.lines(strings.Repeat("a line\x1b[2J\n\n", 500) + "end")
	if len(lines) != maxLines+1 || strings.ContainsRune(lines[0], '\x1b') {
		t.Errorf("%d lines, the first %q", len(lines), lines[0])
	}
	if long := r.lines(strings.Repeat("x", 10_000)); len(long) != 1 || len(long[0]) > maxLine+len("…") {
		t.Errorf("a line of %d bytes", len(long[0]))
	}
}

func TestRowsAreJudged(t *testing.T) {
	simulated := Simulated{
		AsDelivered: {"a/b": {"$ one", "free 12 GB", "exit 0", "$ two", "exit 0"}},
		"otherwise": {"a/b": {"$ one", "busy", "exit 1", "$ two", "exit 0"}},
		"a second":  {"a/b": {"$ one", "full", "exit 1", "$ two", "exit 0"}},
		"a third":   {"a/b": {"$ one", "full", "exit 1", "$ two", "exit 0"}},
	}
	for name, c := range map[string]struct {
		seen    []string
		exact   bool
		verdict Verdict
		why     string
	}{
		"the same but for numbers and spaces": {[]string{"$ one", "  free   7 GB", "exit 0", "$ two", "exit 0"}, true, AsSimulated, ""},
		"another form of number":              {[]string{"$ one", "free 26.0.1 GB", "exit 0", "$ two", "exit 0"}, true, AsSimulated, ""},
		"with more":                           {[]string{"$ one", "free 7 GB", "hello", "exit 0", "$ two", "exit 0"}, false, AsSimulated, ""},
		"with more than it may":               {[]string{"$ one", "free 7 GB", "hello", "exit 0", "$ two", "exit 0"}, true, Differs, ""},
		"another code":                        {[]string{"$ one", "free 7 GB", "exit 0", "$ two", "exit 1"}, false, Differs, ""},
		"by another command":                  {[]string{"$ one", "exit 0", "$ two", "free 7 GB", "exit 0"}, false, Differs, ""},
		"as with a switch":                    {[]string{"$ one", "busy", "exit 1", "$ two", "exit 0"}, true, AsSimulated, "as with the simulator's switch otherwise"},
		"as with one of two switches":         {[]string{"$ one", "full", "exit 1", "$ two", "exit 0"}, true, AsSimulated, "as with the simulator's switch a second, or a third"},
	} {
		got := simulated.Judge(Row{Section: "a", ID: "b", Seen: c.seen, Exact: c.exact})
		if got.Verdict != c.verdict || got.Why != c.why {
			t.Errorf("%s: %s, %q: lacks %q, has %q", name, got.Verdict, got.Why, got.Lacking, got.Unexpected)
		}
	}
	if got := (Row{Why: "as with the simulator's switch a second, or a third"}).Switches(); !slices.Equal(got, []string{"a second", "a third"}) {
		t.Errorf("the switches of a row are %q", got)
	}
	if got := (Row{Why: "held to what macfleet promises: the simulator does not show it"}).Switches(); got != nil {
		t.Errorf("a row without switches has %q", got)
	}
	if got := simulated.Judge(Row{Section: "a", ID: "unknown"}); got.Verdict != NotSimulated {
		t.Errorf("what is not simulated is %s", got.Verdict)
	}
}

func TestQuestionsNameTheirRowsOrWhyThereIsNone(t *testing.T) {
	all := answers([]Row{
		{Section: "looks", ID: "boot-session", Question: "R22", Verdict: AsSimulated},
		{Section: "looks", ID: "lockout", Question: "R1", Verdict: NotTried},
	})
	found := map[string][]string{}
	for _, a := range all {
		if len(a.Rows) == 0 == (a.Why == "") {
			t.Errorf("%s has rows %q and reason %q", a.ID, a.Rows, a.Why)
		}
		found[a.ID] = a.Rows
	}
	if len(all) < 28 || len(found["R1"]) != 0 {
		t.Errorf("%d answers, R1 by %q", len(all), found["R1"])
	}
	if diff := cmp.Diff([]string{"looks/boot-session"}, found["R22"]); diff != "" {
		t.Error(diff)
	}
}

// Every question that a look or a step names is one.
func TestLooksNameQuestionsThatThereAre(t *testing.T) {
	known := map[string]bool{"": true}
	for _, a := range answers(nil) {
		known[a.ID] = true
	}
	ids := map[string]bool{}
	for _, l := range append(userLooks(), rootLooks()...) {
		if !known[l.question] || ids[l.id] || len(l.runs) == 0 {
			t.Errorf("look %s: question %q, said twice: %t, %d commands", l.id, l.question, ids[l.id], len(l.runs))
		}
		ids[l.id] = true
	}
	for step, question := range stepQuestions {
		if !known[question] {
			t.Errorf("step %s: question %q", step, question)
		}
	}
}

func TestSectionsNeedWhatComesBeforeThem(t *testing.T) {
	before := map[string]bool{}
	for _, s := range sections() {
		for _, need := range append(append([]string{}, s.needs...), s.after...) {
			if !before[need] {
				t.Errorf("%s needs %s, which does not come before it", s.name, need)
			}
		}
		if before[s.name] || s.limit == 0 || About(s.name) == "" {
			t.Errorf("%s: said twice, without a limit, or without a word", s.name)
		}
		before[s.name] = true
	}
}

// What is recorded went through the redactor: it shows it as it is.
func TestWhatIsRecordedIsAsReportsShowIt(t *testing.T) {
	simulated, err := ReadSimulated()
	if err != nil {
		t.Fatal(err)
	}
	r := newRedactor("m1")
	for _, rows := range simulated {
		for key, lines := range rows {
			for _, line := range lines {
				if got := r.text(line); got != line && !strings.HasPrefix(line, prompt) {
					t.Errorf("%s: %q is shown as %q", key, line, got)
				}
			}
		}
	}
}
