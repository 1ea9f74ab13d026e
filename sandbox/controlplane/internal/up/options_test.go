package up

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/sandbox/controlplane/internal/pki"
)

func TestParseOptions(t *testing.T) {
	working, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
		want Options
		fail string
	}{
		{name: "defaults", args: []string{"--dir=/state"}, want: Options{Dir: "/state"}},
		{
			name: "paths become absolute: the process changes its working directory",
			args: []string{"--dir=state", "--audit-log=audit.log"},
			want: Options{Dir: filepath.Join(working, "state"), AuditLog: filepath.Join(working, "audit.log")},
		},
		{
			name: "further flags",
			args: []string{"--dir=/s", "--port=6443", "--kube-apiserver-arg=--v=4", "--kube-apiserver-arg=--profiling=true", "--kube-controller-manager-arg=--v=2"},
			want: Options{Dir: "/s", Port: 6443, APIServerArgs: []string{"--v=4", "--profiling=true"}, ControllerManagerArgs: []string{"--v=2"}},
		},
		{name: "no directory", fail: "--dir is required"},
		{name: "no port", args: []string{"--dir=/s", "--port=65536"}, fail: "--port 65536"},
		{name: "an argument", args: []string{"--dir=/s", "now"}, fail: `"now"`},
		{name: "an unknown flag", args: []string{"--etcd"}, fail: "-etcd"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseOptions(tc.args, io.Discard)
			if tc.fail != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fail) {
					t.Fatalf("error %v, want one with %q", err, tc.fail)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestListenReportsATakenPort(t *testing.T) {
	taken, err := listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // test
	again, err := listen(t.Context(), taken.Addr().(*net.TCPAddr).Port)
	if err == nil {
		t.Fatal("one port was opened twice", again.Close())
	}
}

// The components must accept every flag they are given, and further flags must win.
func TestComponentFlags(t *testing.T) {
	dir := t.TempDir()
	certs, err := pki.Create(filepath.Join(dir, "pki"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{certs: certs, options: Options{
		Dir: dir, AuditLog: filepath.Join(dir, "audit.log"),
		APIServerArgs: []string{"--allow-privileged=false"}, ControllerManagerArgs: []string{"--node-monitor-grace-period=20s"},
	}}
	args := p.apiServerArgs()
	if last := args[len(args)-1]; last != "--allow-privileged=false" {
		t.Errorf("the API server's last flag is %s, want the one given by the user", last)
	}
	for _, want := range []string{
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth=true",
		"--audit-log-path=" + p.options.AuditLog,
	} {
		if !slices.Contains(args, want) {
			t.Errorf("the API server has no %s", want)
		}
	}
	args = p.controllerManagerArgs()
	if last := args[len(args)-1]; last != "--node-monitor-grace-period=20s" {
		t.Errorf("the controller manager's last flag is %s, want the one given by the user", last)
	}
}

func TestSocketNamesFit(t *testing.T) {
	for _, socket := range []string{clientSocket().Path, peerSocket().Path} {
		if len(socket) > 107 {
			t.Errorf("%s has %d bytes, a socket's name may have 107", socket, len(socket))
		}
	}
}
