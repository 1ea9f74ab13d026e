package converge

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/converge/step"
)

const home = "/Users/m1"

// fixture is a Mac in memory with a staged build and an agent that behaves.
type fixture struct {
	t       *testing.T
	mac     *macostest.Mac
	desired document.Desired
	self    string
	// release is what the URL of tart names; nil: nothing.
	release []byte
	// managers is how many have signed something so far.
	managers int
	// joinedWith is the kubeconfig that the agent read at its start.
	joinedWith string
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, mac: macostest.New()}
	f.desired = document.Desired{
		SSHKeys: []string{fleetsKey},
		Schema:  document.DesiredSchema,
		Host: document.Host{
			Name: "ci-abc12", ProviderID: "scw-applesilicon://fr-par-1/4a6d", Epoch: 3, User: "m1",
			Address: "192.0.2.4", Zone: "fr-par-1", ServerType: "M2-M", Fleet: "ci",
		},
		Node: document.Node{MaxVMs: 2},
		Mac: document.Mac{
			AutoLogin: true, Network: document.Network{Subnet: document.DefaultSubnet},
		},
		Secrets: &document.Secrets{ConsolePassword: "correct horse"},
		Join: &document.Join{
			Server: "https://192.0.2.1:6443", CA: []byte("pem"), Token: "abcdef.0123456789abcdef",
			Permit: document.JoinPermit{ID: "p1", NotAfter: time.Unix(1_800_003_600, 0).UTC()},
		},
	}
	f.mac.Put(tartBrewed, []byte("tart"), step.RootAttr(0o755))
	f.stage("first build")
	f.mac.Program = f.goodJob
	return f
}

// stage uploads a build and asks for it.
func (f *fixture) stage(text string) { f.stageBytes(macostest.Build(text)) }

func (f *fixture) stageBytes(data []byte) {
	build := document.Hash(data)
	f.desired.Agent = document.Agent{SHA256: build, Version: "v0.1.0"}
	f.self = path.Join(home, document.StagingDir, build)
	f.mac.Put(f.self, data, macos.Attr{Mode: 0o700, Owner: "m1", Group: "staff"})
}

// goodJob answers with what it was started from and the configuration it read.
func (f *fixture) goodJob(m *macostest.Mac, label string, pid int) macostest.Process {
	config, _ := m.Get(document.ConfigFile)
	health := document.Health{
		Build: buildOf(m.Resolve(document.CurrentAgent)), ConfigHash: document.Hash(config), PID: pid,
	}
	p := macostest.Process{AnswersAfter: time.Second}
	switch label {
	case document.HostdLabel:
		p.Socket, p.Answer = document.HostdSocket, f.encoded(document.HostdAnswer{Health: health})
	case document.AgentLabel:
		bootstrap, _ := m.Get(document.BootstrapKubeconfig)
		f.joinedWith = string(bootstrap)
		p.Socket, p.Answer = document.HealthSocket, f.encoded(health)
	}
	return p
}

func (f *fixture) encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		f.t.Error(err)
	}
	return data
}

func (f *fixture) options() Options {
	return Options{Mac: f.mac.Interfaces(), Self: f.self, Home: home, Fetch: f.fetch}
}

func (f *fixture) run(o Options) document.Report {
	f.t.Helper()
	f.mac.Changes = nil
	r, err := Run(context.Background(), o, f.desired)
	if err != nil {
		f.t.Fatal(err)
	}
	// As the command does, after it told the report.
	if err := reboot(context.Background(), o, r, nil); err != nil && f.mac.Fail == nil {
		f.t.Fatal(err)
	}
	return r
}

// converge runs and expects success.
func (f *fixture) converge() document.Report {
	f.t.Helper()
	r := f.run(f.options())
	if s, failed := r.FailedStep(); failed {
		f.t.Fatalf("step %s failed (%s): %s", s.Name, s.Class, s.Detail)
	}
	return r
}

// refused runs and expects the step to fail with the class.
func (f *fixture) refused(step string, class document.Class, detail string) document.Report {
	f.t.Helper()
	r := f.run(f.options())
	s, _ := r.FailedStep()
	if s.Name != step || s.Class != class || !strings.Contains(s.Detail, detail) {
		f.t.Fatalf("failed step is %q (%s): %q; want %q (%s) with %q", s.Name, s.Class, s.Detail, step, class, detail)
	}
	if r.Exit != class.Exit() {
		f.t.Errorf("exit %d, want %d", r.Exit, class.Exit())
	}
	return r
}

func outcomes(r document.Report) map[string]document.Outcome {
	m := map[string]document.Outcome{}
	for _, s := range r.Steps {
		m[s.Name] = s.Outcome
	}
	return m
}

// did lists the launchd calls of the last run for a job, without its label.
func (f *fixture) did(label string) []string {
	var calls []string
	for _, c := range f.mac.Changes {
		call, found := strings.CutSuffix(c, " "+label)
		if found && slices.Contains([]string{"enable", "bootstrap", "bootout", "kickstart", "kickstart -k"}, call) {
			calls = append(calls, call)
		}
	}
	return calls
}

// inOrder expects the changes of the last run to be among its changes, each after the one
// before it.
func (f *fixture) inOrder(changes ...string) {
	f.t.Helper()
	last := -1
	for _, change := range changes {
		at := slices.Index(f.mac.Changes, change)
		if at <= last {
			f.t.Errorf("change %q is number %d, what must come before it number %d (-1: not made)", change, at, last)
		}
		last = at
	}
}

func (f *fixture) content(name string) string {
	f.t.Helper()
	data, ok := f.mac.Get(name)
	if !ok {
		f.t.Fatalf("%s is missing", name)
	}
	return string(data)
}

var errCut = errors.New("the connection was cut")

// fleetsKey is the public half of the fleet's SSH key.
const fleetsKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
