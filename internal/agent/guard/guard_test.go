package guard

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hostd answers every request with the text.
func hostd(t *testing.T, answer string) (Gate, <-chan string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "gate") // short: a socket lives in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	asked := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		line, _ := bufio.NewReader(c).ReadString('\n')
		asked <- line
		_, _ = c.Write([]byte(answer))
	}()
	now := time.Date(2026, 5, 1, 10, 0, 30, 0, time.UTC)
	return Gate{Socket: path, Now: func() time.Time { return now }}, asked
}

const (
	fresh = `"firewallProvedAt":"2026-05-01T10:00:29Z"`
	stale = `"firewallProvedAt":"2026-05-01T09:58:29Z"`
	// future: no clock of this Mac can have said that about this question.
	future = `"firewallProvedAt":"2026-05-01T10:02:30Z"`
)

func TestArm(t *testing.T) {
	for name, c := range map[string]struct {
		answer  string
		refused bool
		away    bool
		want    string
	}{
		"proved":        {"{" + fresh + "}\n", false, false, ""},
		"not proved":    {`{"error":"pf is\nbusy",` + fresh + "}\n", true, false, "pf is busy"},
		"never":         {"{}\n", true, false, "never"},
		"stale":         {"{" + stale + "}\n", true, false, "2m1s"},
		"of the future": {"{" + future + "}\n", true, false, "-2m0s"},
		"silent":        {"", false, true, "hung up"},
		"half":          {`{"health":{}`, false, false, "not one of hostd's"},
		"another story": {"<html>", false, false, "not one of hostd's"},
		"endless":       {"{" + fresh + strings.Repeat(" ", maxAnswer), false, false, "not one of hostd's"},
	} {
		gate, asked := hostd(t, c.answer)
		err := gate.Arm(t.Context())
		var refused *refusedError
		var away *awayError
		switch {
		case c.want == "" && err != nil, c.want != "" && err == nil:
			t.Errorf("%s: error %v", name, err)
		case errors.As(err, &refused) != c.refused, errors.As(err, &away) != c.away:
			t.Errorf("%s: error %T", name, err)
		case c.want != "" && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: error %q (%T), want %q", name, err, err, c.want)
		}
		if got := <-asked; got != "{\"verb\":\"arm\"}\n" {
			t.Errorf("%s: asked %q", name, got)
		}
	}
}

func TestArmWaitsForTheSession(t *testing.T) {
	for answer, want := range map[string]bool{
		"{" + fresh + `,"session":true}` + "\n": true,
		"{" + fresh + "}\n":                     false,
	} {
		gate, _ := hostd(t, answer)
		gate.Session = true
		err := gate.Arm(t.Context())
		var none *noSessionError
		if (err == nil) != want || !want && (!errors.As(err, &none) || !none.Proved() || none.PodReason() != "NoConsoleSession") {
			t.Errorf("%s: error %v", answer, err)
		}
	}
}

func TestArmWithoutHostdFails(t *testing.T) {
	err := Gate{Socket: filepath.Join(t.TempDir(), "none")}.Arm(t.Context())
	var away *awayError
	if !errors.As(err, &away) || !away.Away() || !strings.Contains(err.Error(), "dev.macfleet.hostd") {
		t.Errorf("error %v", err)
	}
}

func TestArmEndsWithTheOneWhoAsks(t *testing.T) {
	gate, asked := hostd(t, "")
	gone := errors.New("the Pod is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := gate.Arm(ctx); !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
	select {
	case <-asked:
	default: // it was not even asked
	}
}
