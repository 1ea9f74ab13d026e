package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/macfleet/macfleet/internal/cli/cluster"
)

func TestVNCShowsAndOpensTheAddress(t *testing.T) {
	for name, c := range map[string]struct {
		open   bool
		view   error
		opened string
		errs   string
	}{
		"printed":     {},
		"opened":      {open: true, opened: "vnc://127.0.0.1:40001"},
		"no viewer":   {open: true, opened: "vnc://127.0.0.1:40001", view: errors.New("none"), errs: "no viewer could be opened: none"},
		"not wanted":  {view: errors.New("must not be asked")},
		"other error": {open: true, opened: "vnc://127.0.0.1:40001", view: errors.New("two\nlines"), errs: "two"},
	} {
		t.Run(name, func(t *testing.T) {
			opened := ""
			w := screens{
				forward: func(_ context.Context, s guestScreen, _ io.Writer, ready func(int)) error {
					if s.pod != "build-7" || s.port != 40001 {
						t.Errorf("asked for %+v", s)
					}
					ready(s.port)
					return nil
				},
				view: func(_ context.Context, url string) error { opened = url; return c.view },
			}
			var out, errs bytes.Buffer
			if err := w.show(t.Context(), guestScreen{pod: "build-7", port: 40001, open: c.open}, &out, &errs); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(out.String(), "vnc://127.0.0.1:40001 is the screen of build-7") {
				t.Errorf("prints %q", &out)
			}
			if opened != c.opened || !strings.Contains(errs.String(), c.errs) || c.errs == "" && errs.Len() > 0 {
				t.Errorf("opened %q, errors %q", opened, &errs)
			}
		})
	}
}

func TestVNCTakesAPodWithItsNamespaceOrKind(t *testing.T) {
	for typed, namespace := range map[string]string{"build-7": "", "ci/build-7": "ci", "pod/build-7": ""} {
		cmd := screens{forward: func(_ context.Context, s guestScreen, _ io.Writer, _ func(int)) error {
			if s.pod != "build-7" || s.cluster.Chosen() != namespace {
				t.Errorf("%s: Pod %s in %q, want build-7 in %q", typed, s.pod, s.cluster.Chosen(), namespace)
			}
			return nil
		}}.command()
		cmd.SetArgs([]string{typed})
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Errorf("%s: %v", typed, err)
		}
	}
}

// A person ends it with Ctrl-C, which is no failure; a connection that breaks is one.
func TestVNCEnds(t *testing.T) {
	broken := errors.New("lost connection to pod")
	forward := func(ctx context.Context, _ guestScreen, _ io.Writer, _ func(int)) error { return broken }
	ctx, cancel := context.WithCancel(t.Context())
	if err := (screens{forward: forward}).show(ctx, guestScreen{}, io.Discard, io.Discard); !errors.Is(err, broken) {
		t.Errorf("a broken connection: %v", err)
	}
	cancel()
	if err := (screens{forward: forward}).show(ctx, guestScreen{}, io.Discard, io.Discard); err != nil {
		t.Errorf("ended by hand: %v", err)
	}
}

// A cluster that takes the connection and says nothing does not hold a person who ends it.
func TestVNCEndsWhileItConnects(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	t.Setenv("KUBECONFIG", kubeconfigFor(t, "http://"+silent.Addr().String()))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := silent.Accept(); err == nil {
			t.Cleanup(func() { _ = conn.Close() })
			cancel()
		}
	}()
	s := guestScreen{cluster: &cluster.Flags{}, pod: "build-7"}
	s.cluster.AddTo(pflag.NewFlagSet("vnc", pflag.ContinueOnError))
	if err := (screens{forward: forwardVNC}).show(ctx, s, io.Discard, io.Discard); err != nil {
		t.Errorf("ended by hand: %v", err)
	}
}

func TestVNCUsage(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for args, c := range map[string]struct {
		code int
		says string
	}{
		"vnc":                           {exitUsage, "say which Pod"},
		"vnc a b":                       {exitUsage, "say which Pod"},
		"vnc a --port 65536":            {exitUsage, "65536 is not a port"},
		"vnc a --kubeconfig " + none:    {exitFailed, "kubeconfig"},
		"vnc a --port many":             {exitUsage, "invalid argument"},
		"vnc a --kubeconfig /dev/null ": {exitFailed, "kubeconfig"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), &out, &errs); code != c.code || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%s: exit code %d, %s", args, code, &errs)
		}
	}
}
