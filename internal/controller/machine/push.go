package machine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/fleetkey"
	"github.com/macfleet/macfleet/internal/fleetsecret"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/requeue"
	"github.com/macfleet/macfleet/internal/rollout"
)

// sshPort is where sshd listens, unless --ssh-port says otherwise.
const sshPort = 22

// stepKeys is where a push stands that lacks the fleet's keys, as people see it.
const stepKeys = "keys"

// pushStarter begins pushes, and says what a Mac is to become.
type pushStarter struct {
	clock     clock.PassiveClock
	agent     push.Agent
	clientCA  func(context.Context) ([]byte, error)
	checks    *job.Pool
	fleetKeys *fleetKeys
	machines  *machines
	pusher    *push.Pusher
	pushes    *job.Pool
	sshPort   int
}

// desired is the one document that a Mac is converged to, for its first bootstrap
// and for each later run: what its profile asks of all its Macs, and what is this
// one's. It holds no join material.
func (p *pushStarter) desired(ctx context.Context, v *visit, profile *infrav1.MacNodeProfile) (document.Desired, error) {
	clientCA, err := p.clientCA(ctx)
	if err != nil {
		return document.Desired{}, err
	}
	want := rollout.Desired(profile, document.Agent{SHA256: p.agent.SHA256, Version: p.agent.Version}, clientCA)
	want.Host = identity(v)
	want.Host.User = v.secret.User
	want.Host.Address = v.secret.Address
	want.Host.Zone = v.Host.Spec.Zone
	want.Host.ServerType = v.Host.Status.Server.Type
	want.Host.Fleet = v.Fleet()
	want.Host.KubernetesVersion = v.KubernetesVersion()
	want.Host.TakeOver = host.TakesOver(v.Machine)
	if p.sshPort != sshPort {
		want.Host.SSHPort = p.sshPort
	}
	want.Restart = v.RequestedRestart()
	return want, nil
}

// proof is what a push that ends well has made of a Mac, and for which claim and install
// epoch. The profile, or what the vendor shows, may have changed since it began.
type proof struct {
	token   string
	epoch   int64
	applied infrav1.AppliedStatus
}

// provedBy is what a job has proved of the Mac as it is claimed and installed now; false
// where it failed, or was another claim's.
func (v *visit) provedBy(current job.Run) (proof, bool) {
	made, _ := current.Found.(proof)
	return made, current.Result == nil && made.token != "" && made.token == v.Token() && made.epoch == v.Host.Spec.Record.InstallEpoch
}

// beginPush starts the push as a job, once nothing else holds it up: what the Mac was at
// is forgotten last. Keys of the fleet that cannot be had are a *push.Failure, which is
// the caller's to tell.
func (p *pushStarter) beginPush(ctx context.Context, v *visit, want document.Desired, id string, join bool) (ctrl.Result, error) {
	name := client.ObjectKeyFromObject(v.Machine)
	if p.checks.Running(name) {
		p.checks.Cancel(name) // its end brings us back
		return ctrl.Result{}, nil
	}
	if err := p.confirmHere(ctx, v); err != nil {
		return ctrl.Result{}, err
	}
	key, signing, err := p.fleetKeys.keysForPush(ctx, v)
	if err != nil {
		return ctrl.Result{}, &push.Failure{Step: stepKeys, Class: document.Wait, Reason: infrav1.ReasonFleetKeyUnavailable, Err: err}
	}
	if v.clearAppliedRevision(want) {
		return soon(), nil
	}
	want.UpgradeKey, want.SSHKeys = signing.Public(), key.Publics()
	request := push.Request{
		Machine: name, Claim: v.claimOnHost(), Epoch: v.Host.Spec.Record.InstallEpoch, Target: p.target(v, key), Seeds: key.Seeds(),
		Password: v.secret.Password, NoPassword: missingPassword(v.Host), Desired: want, Registration: rollout.Registration(want.Node),
		Signer: signing.Signer(want.Host, p.clock.Now), Join: join, Told: p.machines.tellOfConverge(v.Machine),
	}
	made := proof{token: v.Token(), epoch: want.Host.Epoch, applied: v.AppliedBy(document.Revision(want), want.Agent.SHA256, want.Restart)}
	made.applied.SSHKey = fleetkey.Fingerprint(key.Public)
	p.pushes.Begin(name, id, func(ctx context.Context, say func(string)) (any, error) {
		return made, p.pusher.Push(ctx, request, say)
	})
	ctrl.LoggerFrom(ctx).Info("Pushing to the Mac", "host", v.Host.Name, "job", id, "join", join)
	return ctrl.Result{}, nil
}

// confirmHere reads uncached that the Mac may be pushed to from here: a cache may not know
// yet what a move or a restore has brought.
func (p *pushStarter) confirmHere(ctx context.Context, v *visit) error {
	elsewhere, err := p.machines.elsewhere(ctx, v, p.machines.reader)
	if err != nil || elsewhere.Reason == "" {
		return err
	}
	v.bootstrapped, v.upToDate = elsewhere, machine.Finding{}
	return requeue.ErrStale
}

// pushID names a push by its inputs: a result belongs to the same inputs only.
func pushID(v *visit, want document.Desired) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s|%s|%d|%s|%s|%t|%s|%s", v.Machine.UID, v.Token(), want.Host.Epoch, document.Revision(want), v.secret.Address, v.secret.Password.Present(), want.Restart, v.Host.Spec.AcceptSerial)
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// missingPassword says why there may be no password: the vendor seals it, as far as
// the host controller has seen, or it is just not there.
func missingPassword(h *host.Host) string {
	c := apimeta.FindStatusCondition(h.Status.Conditions, host.CredentialsStagedCondition)
	if c != nil && c.Reason == infrav1.ReasonCredentialsSealed {
		return infrav1.ReasonCredentialsSealed
	}
	return infrav1.ReasonMissingSudoPassword
}

// target is the claimed Mac, with the pin of its present epoch.
func (p *pushStarter) target(v *visit, key fleetsecret.SSHKey) push.Target {
	t := push.Target{Address: v.secret.Address, Port: p.sshPort, User: v.secret.User, Key: key.Signer, OtherKeys: key.Others()}
	if ip := v.Host.Status.Server.IP; ip != "" && ip != t.Address {
		t.Addresses = []string{ip} // the vendor moved it since its credentials were staged
	}
	if pin := v.Host.Spec.Record.HostKey; pin != nil && pin.Epoch == v.Host.Spec.Record.InstallEpoch {
		t.Pin = pin
	}
	return t
}

// awaitReboot holds pushes back while the host is about to reboot or does so.
func (p *pushStarter) awaitReboot(v *visit) (ctrl.Result, bool) {
	now := p.clock.Now()
	is, until := host.Rebooting(v.Host, v.Machine.Spec.ProviderID != "", now)
	if !is {
		return ctrl.Result{}, false
	}
	because := ""
	if why := cmp.Or(host.WhyRecoveryReboots(v.Host), host.WhyPersonReboots(v.Host, now)); why != "" {
		because = " (" + why + ")"
	}
	v.bootstrapped = machine.False(infrav1.ReasonRebootingForRecovery, "host %s reboots%s", v.Host.Name, because)
	if why := host.RebootWaits(v.Host); why != "" {
		v.bootstrapped = machine.False(infrav1.ReasonRebootingForRecovery, "host %s is to be rebooted%s, which waits: %s", v.Host.Name, because, why)
	}
	if until.IsZero() {
		return ctrl.Result{}, true
	}
	return after(now, until), true
}

// identity says which Mac is meant, and which installation of it.
func identity(v *visit) document.Host {
	return document.Host{Name: v.Machine.Name, ProviderID: machine.ProviderID(v.Host), Epoch: v.Host.Spec.Record.InstallEpoch}
}

// fleetKeys has the keys of fleets made, and tells when one was replaced.
type fleetKeys struct {
	keys     *fleetsecret.Store
	machines *machines
}

// keysForPush returns both keys of the Machine's fleet. A Mac that runs does not wait for
// the vendor to take the SSH key: only Macs that are installed later get it from there.
func (p *fleetKeys) keysForPush(ctx context.Context, v *visit) (fleetsecret.SSHKey, fleetsecret.SigningKey, error) {
	key, err := p.ensureSSHKey(ctx, v)
	if _, is := errors.AsType[*fleetsecret.NotRegisteredError](err); is && v.Machine.Spec.ProviderID != "" {
		ctrl.LoggerFrom(ctx).Info("The fleet's SSH key could not be registered; the next push tries again", "fleet", v.Fleet(), "error", err.Error())
		err = nil
	}
	if err != nil {
		return fleetsecret.SSHKey{}, fleetsecret.SigningKey{}, err
	}
	signing, err := p.ensureSigningKey(ctx, v)
	return key, signing, err
}

// ensureSSHKey returns the SSH key of the Machine's fleet, registered with the vendor.
// It tells when a fleet that has Macs got another key: nobody reaches them with it, and
// nothing else would say so before the next failure.
func (p *fleetKeys) ensureSSHKey(ctx context.Context, v *visit) (fleetsecret.SSHKey, error) {
	key, made, err := p.keys.SSH(ctx, v.fleetOf())
	if made {
		p.warnOfNewKey(ctx, v, "FleetKeyReplaced", v.fleetOf().SSHSecret().Name, "nobody can reach them by SSH; restore the Secret, or delete their Machines")
	}
	return key, err
}

// ensureSigningKey returns the signing key of the Machine's fleet. Where a fleet that
// has Macs got another one, they refuse what is signed by it, and the next push may be
// months away.
func (p *fleetKeys) ensureSigningKey(ctx context.Context, v *visit) (fleetsecret.SigningKey, error) {
	key, made, err := p.keys.Signing(ctx, v.fleetOf())
	if made {
		p.warnOfNewKey(ctx, v, "SigningKeyReplaced", v.fleetOf().SigningSecret().Name, "they refuse each push; restore the Secret, or delete their Machines to have them wiped")
	}
	return key, err
}

func (p *fleetKeys) warnOfNewKey(ctx context.Context, v *visit, reason, secret, effect string) {
	bereft := p.macsOfFleet(ctx, v)
	if bereft == 0 {
		return
	}
	note := fmt.Sprintf("Secret %s was not there and was made anew. Macs of fleet %s that know another key: %d; %s", secret, v.Fleet(), bereft, effect)
	p.machines.event(v.Machine, corev1.EventTypeWarning, reason, note)
	ctrl.LoggerFrom(ctx).Info("A fleet that has Macs got another key", "secret", secret, "fleet", v.Fleet(), "macs", bereft)
}

// macsOfFleet counts the Macs that the Machine's fleet has brought up.
func (p *fleetKeys) macsOfFleet(ctx context.Context, v *visit) int {
	fleet := v.Fleet()
	return len(p.machines.requests(ctx, func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		same := m.Labels[infrav1.FleetLabel] == fleet || m.Spec.FleetName == fleet
		taken := !host.TakesOver(m) || m.Status.Applied.Agent != "" // else it knows no key of ours yet
		return same && taken && m.Namespace == v.Machine.Namespace && m.Spec.ProviderID != ""
	}))
}
