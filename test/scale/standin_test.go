package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/internal/rollout"
	"github.com/macfleet/macfleet/sandbox/scaleway"
)

const aServer = "11111111-2222-4333-8444-555555555555"

// outside is who brings one stand-in up, over SSH.
type outside struct {
	*testing.T
	macs    *macs
	nodes   chan string
	key     ssh.Signer
	signing ed25519.PrivateKey
	agent   push.Agent
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	o := &outside{T: t, signing: private, nodes: make(chan string, 2)}
	if o.key, err = ssh.NewSignerFromKey(private); err != nil {
		t.Fatal(err)
	}
	o.agent.Version = "v1"
	if o.agent.Build, err = remote.NewBuild([]byte(strings.Repeat("an agent ", 10_000))); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.macs = newMacs(listener.Addr().(*net.TCPAddr).Port, 0)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	o.macs.join = func(_ context.Context, want document.Desired) error {
		o.nodes <- want.Host.Name
		return nil
	}
	t.Cleanup(o.macs.stop)
	o.install("a-password")
	return o
}

func (o *outside) install(password string) {
	o.Helper()
	err := o.macs.Install(o.Context(), scaleway.Install{
		ServerID: aServer, Zone: "fr-par-1", IP: netip.MustParseAddr("127.0.0.1"), Password: password,
		AuthorizedKeys: []string{string(ssh.MarshalAuthorizedKey(o.key.PublicKey()))},
	})
	if err != nil {
		o.Fatal(err)
	}
}

func (o *outside) dial() (push.Mac, error) {
	return push.SSH{}.Dial(o.Context(), push.Target{
		Address: "127.0.0.1", Port: o.macs.port, User: "m1", Key: o.key,
		FirstUse: func(context.Context, infrav1.HostKey) error { return nil },
	})
}

// connected is a connection that is there.
func (o *outside) connected() push.Mac {
	o.Helper()
	mac, err := o.dial()
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = mac.Close() })
	return mac
}

func (o *outside) desired(name string) document.Desired {
	d := rollout.Desired(&infrav1.MacNodeProfile{}, document.Agent{SHA256: o.agent.SHA256, Version: o.agent.Version}, nil)
	d.Host = document.Host{Name: name, ProviderID: "scw-applesilicon://fr-par-1/" + aServer, Epoch: 1, User: "m1", Address: "127.0.0.1", Zone: "fr-par-1", ServerType: "M2-L"}
	d.UpgradeKey = o.signing.Public().(ed25519.PublicKey)
	d.Join = &document.Join{Server: "https://127.0.0.1", CA: []byte("an authority"), Token: "abcdef.0123456789abcdef", Permit: document.JoinPermit{ID: "permit", NotAfter: time.Now().Add(time.Hour)}}
	return d
}

func (o *outside) signer(d document.Desired) *document.Signer {
	return document.NewSigner(o.signing, d.Host, time.Now)
}

func (o *outside) password(text string) cloud.Password {
	o.Helper()
	password, usable := cloud.NewPassword(text)
	if !usable {
		o.Fatalf("%q is no password", text)
	}
	return password
}

// bring does what the manager does with a fresh Mac.
func (o *outside) bring(name, password string) error {
	o.Helper()
	ctx, mac := o.Context(), o.connected()
	facts, err := mac.Probe(ctx)
	if err != nil {
		return err
	}
	if !facts.Sudo {
		if err := mac.Grant(ctx, o.password(password)); err != nil {
			return err
		}
	}
	if facts.Installed == "" {
		if err := mac.Receive(ctx, o.agent); err != nil {
			return err
		}
	}
	want := o.desired(name)
	report, err := mac.Converge(ctx, want, o.signer(want))
	if err == nil && !report.Changed() {
		o.Errorf("it says that nothing was changed: %+v", report)
	}
	return err
}

func TestAStandInIsBroughtUpAsAMac(t *testing.T) {
	o := newOutside(t)
	if err := o.bring("machine", "a-password"); err != nil {
		t.Fatal(err)
	}
	if name := <-o.nodes; name != "machine" {
		t.Errorf("it joins as %s", name)
	}
	mac := o.connected()
	facts, err := mac.Probe(t.Context())
	if err != nil || !facts.Sudo || facts.Installed != o.agent.SHA256 || facts.Serial == "" || facts.PlatformUUID == "" || facts.BootSession == "" {
		t.Errorf("it says of itself %+v, %v", facts, err)
	}
	if report, err := mac.Plan(t.Context(), o.desired("machine")); err != nil || report.Changed() {
		t.Errorf("it plans %+v, %v", report, err)
	}
	if err := mac.Leave(t.Context(), o.signer(o.desired("machine"))); err != nil {
		t.Error(err)
	}
	if owners := o.macs.owners(); owners[aServer] != "machine" {
		t.Errorf("the Macs are %v", owners)
	}
	if all := o.macs.complained(0); len(all) > 0 || o.macs.pushes() != 1 {
		t.Errorf("%d pushes, and complaints %q", o.macs.pushes(), all)
	}
}

// What no manager may do is refused, and told.
func TestAStandInComplains(t *testing.T) {
	for _, c := range []struct {
		name, want string
		do         func(*outside) error
	}{
		{"of another Machine without a wipe", "went from machine to other without a wipe", func(o *outside) error { return o.bring("other", "") }},
		{"of another Mac's instructions", "was told to converge as scw-applesilicon://fr-par-1/other", func(o *outside) error {
			want := o.desired("machine")
			want.Host.ProviderID = "scw-applesilicon://fr-par-1/other"
			_, err := o.connected().Converge(o.Context(), want, o.signer(want))
			return err
		}},
		{"of a stranger", "by somebody else than its fleet", func(o *outside) error {
			_, stranger, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				o.Fatal(err)
			}
			return o.connected().Leave(o.Context(), document.NewSigner(stranger, o.desired("machine").Host, time.Now))
		}},
		{"of a wrong password", "a password that is not its own", func(o *outside) error {
			return o.connected().Grant(o.Context(), o.password("an-old-one"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOutside(t)
			if err := o.bring("machine", "a-password"); err != nil {
				t.Fatal(err)
			}
			if err := c.do(o); err == nil {
				t.Error("it is not refused")
			}
			if all := o.macs.complained(0); len(all) != 1 || !strings.Contains(all[0], c.want) {
				t.Errorf("complaints %q, want one that says %q", all, c.want)
			}
		})
	}
}

func TestAWipeMakesAStandInNobodys(t *testing.T) {
	o := newOutside(t)
	if err := o.bring("machine", "a-password"); err != nil {
		t.Fatal(err)
	}
	o.macs.Erase(t.Context(), aServer)
	if _, err := o.dial(); err == nil {
		t.Error("an erased Mac answers")
	}
	o.install("another")
	if owner := o.macs.owners()[aServer]; owner != "" {
		t.Errorf("a fresh Mac is %s's", owner)
	}
	if err := o.bring("other", "another"); err != nil {
		t.Error(err)
	}
	if all := o.macs.complained(0); len(all) > 0 {
		t.Errorf("complaints %q", all)
	}
}

func TestAStandInShowsItsReboot(t *testing.T) {
	o := newOutside(t)
	before, err := o.connected().Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.macs.Reboot(t.Context(), aServer, nil)
	after, err := o.connected().Probe(t.Context())
	if err != nil || after.BootSession == before.BootSession {
		t.Errorf("boot %s and then %s, %v", before.BootSession, after.BootSession, err)
	}
}
