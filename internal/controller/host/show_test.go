package host

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

func TestAClaimIsShownAndStagedInFourCalls(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.claim("m-1", "t-1")
	w.cloud.Forget()
	w.untilPhase(infrav1.HostInUse)
	var calls []string
	for _, call := range w.cloud.Calls() {
		if call.Name != "ListServers" {
			calls = append(calls, call.String())
		}
	}
	if diff := cmp.Diff([]string{"GetServer", "RenameServer m-1", "GetServer", "GetServer"}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	secret := w.secret()
	want := map[string]string{
		"sudo-password": "firstpassword", "ssh-username": "m1", "host": "51.159.1.2", "install-epoch": "1", "claim-token": "t-1",
	}
	got := map[string]string{}
	for key, value := range secret.Data {
		got[key] = string(value)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
	if _, moves := secret.Labels["clusterctl.cluster.x-k8s.io/move"]; !moves || secret.Labels[clusterv1.ClusterNameLabel] != "c" {
		t.Errorf("labels %v", secret.Labels)
	}
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != "uid-1" {
		t.Errorf("owners %v", secret.OwnerReferences)
	}
}

// A restore may leave owners out: the Secret with the Mac's password must go with its Machine.
func TestASecretThatLostItsMachineGetsItBack(t *testing.T) {
	for name, spoil := range map[string]func(*corev1.Secret){
		"no owner":        func(s *corev1.Secret) { s.OwnerReferences = nil },
		"another version": func(s *corev1.Secret) { s.OwnerReferences[0].APIVersion = infrav1.GroupVersion.Group + "/v0" },
	} {
		t.Run(name, func(t *testing.T) {
			w := inUse(t)
			secret := w.secret()
			want := secret.DeepCopy()
			spoil(secret)
			if err := w.client.Update(w.ctx, secret); err != nil {
				t.Fatal(err)
			}
			w.cloud.Forget()
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			got := w.secret()
			if diff := cmp.Diff(want.OwnerReferences, got.OwnerReferences); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.Data, got.Data); diff != "" || len(w.cloud.Calls()) != 0 {
				t.Errorf("calls %v, data (-want +got):\n%s", w.cloud.Calls(), diff)
			}
		})
	}
}

func TestANoOpPassWritesAndAsksNothing(t *testing.T) {
	for name, w := range map[string]*world{"available": newWorld(t), "in use": inUse(t)} {
		if name == "available" {
			w.untilPhase(infrav1.HostAvailable)
		}
		w.cloud.Forget()
		before := w.written()
		for range 3 {
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
		}
		w.inventory.Sweep(w.ctx)
		if n := w.written() - before; n != 0 || len(w.cloud.Calls()) != 1 || len(w.inventory.changes) > 1 {
			t.Errorf("%s: %d writes, calls %v, %d wake-ups", name, n, w.cloud.Calls(), len(w.inventory.changes))
		}
	}
}

// Answers to writes are sealed or stale. The vendor here changes the password
// with the rename: only what a GET said afterwards may be staged.
func TestCredentialsComeFromTheLastGet(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.cloud.OnCall = func(call cloudtest.Call) {
		if call.Name == "RenameServer" {
			server, _ := w.cloud.Server(serverID)
			w.cloud.Set(server, "<sealed>")
		}
	}
	w.claim("m-1", "t-1")
	w.until("sealed", func() bool { return w.reason(host.CredentialsStagedCondition) == infrav1.ReasonCredentialsSealed })
	if got, present := w.secret().Data["sudo-password"]; present || w.phase() != infrav1.HostClaimed {
		t.Fatalf("staged %q in phase %s", got, w.phase())
	}
	server, _ := w.cloud.Server(serverID)
	w.cloud.Set(server, "secondpassword")
	w.untilPhase(infrav1.HostInUse)
	if got := string(w.secret().Data["sudo-password"]); got != "secondpassword" {
		t.Errorf("staged %q", got)
	}
}

func TestStagingKeepsTheMachinesKeysAndDropsAnotherClaimsPassword(t *testing.T) {
	w := inUse(t)
	secret := w.secret()
	secret.Data["host-key"] = []byte("ssh-ed25519 SHA256:x")
	secret.Data["token-id"] = []byte("abcdef")
	secret.Data["claim-token"] = []byte("t-0")
	w.must(w.client.Update(w.ctx, secret))
	server, _ := w.cloud.Server(serverID)
	w.cloud.Set(server, "<sealed>")
	w.until("staged again", func() bool { return string(w.secret().Data["claim-token"]) == "t-1" })
	secret = w.secret()
	_, password := secret.Data["sudo-password"]
	_, pin := secret.Data["host-key"]
	if password || pin || string(secret.Data["token-id"]) != "abcdef" {
		t.Errorf("the Secret holds the keys %v", secret.Data)
	}
}

func TestALostSecretIsStagedAgain(t *testing.T) {
	for name, providerID := range map[string]string{"bootstrapping": "", "a node": host.ProviderID(zone, serverID)} {
		t.Run(name, func(t *testing.T) {
			w := inUse(t)
			m := &infrav1.ScalewayAppleSiliconMachine{}
			w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "m-1"}, m))
			m.Spec.ProviderID = providerID
			w.must(w.client.Update(w.ctx, m))
			result, err := w.reconcile()
			w.must(err)
			if result.RequeueAfter != secretCheck || len(w.cloud.Calls()) != 0 {
				t.Errorf("looks again after %v, calls %v", result.RequeueAfter, w.cloud.Calls())
			}
			w.must(w.client.Delete(w.ctx, w.secret()))
			w.until("staged again", func() bool { return w.secret() != nil })
			if len(w.mutations()) != 0 {
				t.Errorf("mutations %v", w.mutations())
			}
		})
	}
}

// A Machine's name may look like the pool's: its Mac is still its own.
func TestAServerNamedAfterALiveMachineIsNeverAvailable(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.claim(prefix+"7", "t-1")
	w.untilPhase(infrav1.HostInUse)
	w.cloud.Forget()
	w.must(w.client.Delete(w.ctx, w.host()))
	w.until("rebuilt", func() bool { return w.phase() == infrav1.HostDiscovered })
	for range 5 {
		w.must(w.step())
		if w.phase() != infrav1.HostDiscovered {
			t.Fatalf("phase %s", w.phase())
		}
	}
	wish := host.Requirements{Namespace: "fleet", Name: "m-9", Zone: zone, PoolPrefix: prefix}
	choice, skipped := host.Choose(wish, []infrav1.ScalewayAppleSiliconHost{*w.host()})
	if choice != nil || !skipped.Only(host.SkipNamed) {
		t.Errorf("chosen, or skipped as %v", skipped)
	}
	// Its Machine claims it again; or goes, and then the host is the pool's.
	w.must(w.client.Delete(w.ctx, &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: prefix + "7"}}))
	w.untilPhase(infrav1.HostAvailable)
	if choice, skipped = host.Choose(wish, []infrav1.ScalewayAppleSiliconHost{*w.host()}); choice == nil {
		t.Errorf("skipped as %v", skipped)
	}
	if len(w.mutations()) != 0 {
		t.Errorf("mutations %v", w.mutations())
	}
}

func TestAWipedStatusConvergesWithoutAMutation(t *testing.T) {
	w := inUse(t)
	h := w.host()
	h.Status = infrav1.ScalewayAppleSiliconHostStatus{}
	w.must(w.client.Status().Update(w.ctx, h))
	w.untilPhase(infrav1.HostInUse)
	if len(w.mutations()) != 0 {
		t.Errorf("mutations %v", w.mutations())
	}
}

func TestADeletedHostConvergesWithoutAMutation(t *testing.T) {
	w := inUse(t)
	w.must(w.client.Delete(w.ctx, w.host()))
	w.until("rebuilt", func() bool { return w.phase() == infrav1.HostDiscovered })
	h := w.host()
	m := &infrav1.ScalewayAppleSiliconMachine{}
	w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "m-1"}, m))
	if got := host.Repair(m, h, prefix); got != host.ClaimAgain {
		t.Fatalf("verdict %s", got)
	}
	w.claim("m-1", "t-1")
	w.untilPhase(infrav1.HostInUse)
	if len(w.mutations()) != 0 {
		t.Errorf("mutations %v", w.mutations())
	}
}

func TestANameChangedByAnotherStopsEverything(t *testing.T) {
	w := inUse(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "other-cluster-7" })
	w.until("changed", func() bool { return w.reason(infrav1.NameInSyncCondition) == infrav1.ReasonChangedByOther })
	w.release()
	for range 5 {
		w.must(w.step())
	}
	if got := w.reason(infrav1.NameInSyncCondition); len(w.mutations()) != 0 || got != infrav1.ReasonChangedByOther {
		t.Fatalf("mutations %v, reason %q", w.mutations(), got)
	}
	// Named back by hand: the release goes on.
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "m-1" })
	w.untilPhase(infrav1.HostWiping)
}

// Another cluster of the project gave the Mac back after this one's last list: the vendor
// deletes it under its guests.
func TestAServerThatIsToBeDeletedIsNotGivenToAMachine(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.claim("m-1", "t-1")
	w.cloud.Change(serverID, func(s *cloud.Server) { s.DeletionScheduled, s.Status = true, cloud.StatusReinstalling })
	for range 5 {
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
		w.clock.Step(time.Minute)
	}
	if len(w.mutations()) != 0 || w.secret() != nil || w.reason(host.CredentialsStagedCondition) != infrav1.ReasonDeletionScheduled {
		t.Errorf("mutations %v, Secret %v, conditions %+v", w.mutations(), w.secret() != nil, w.host().Status.Conditions)
	}
	m := &infrav1.ScalewayAppleSiliconMachine{}
	w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "m-1"}, m))
	if got := host.Repair(m, w.host(), prefix); got != host.Lost {
		t.Errorf("verdict %s, want that its Machine gives it up", got)
	}
	// Its Machine ends the claim.
	h := w.host()
	host.Detach(h, w.clock.Now())
	w.must(w.client.Update(w.ctx, h))
	w.untilPhase(infrav1.HostRetiring)
	if w.reason(host.CredentialsStagedCondition) != "" {
		t.Errorf("left of the claim: %+v", w.host().Status.Conditions)
	}
}

// A Machine that gave up what was ordered for it could order no other before that is gone: its
// name is taken.
func TestAnOrderedServerThatIsToBeDeletedStaysWithItsOwner(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.claim("m-1", "t-1")
	h := w.host()
	h.Spec.Record.Ordered = true
	w.must(w.client.Update(w.ctx, h))
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name, s.DeletionScheduled = "m-1", true })
	w.untilPhase(infrav1.HostInUse)
}

// A person may give back a Mac in use: it serves its owner until it goes, also when all
// status is lost.
func TestAServerThatIsToBeDeletedStaysWithItsOwner(t *testing.T) {
	w := inUse(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.DeletionScheduled = true })
	w.stepFor(time.Minute)
	h := w.host()
	h.Status = infrav1.ScalewayAppleSiliconHostStatus{}
	w.must(w.client.Status().Update(w.ctx, h))
	w.untilPhase(infrav1.HostInUse)
	if len(w.mutations()) != 0 {
		t.Errorf("mutations %v", w.mutations())
	}
}

func TestAStaleListDoesNotOverruleALaterReading(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	stale, err := w.cloud.ListServers(w.ctx, zone)
	w.must(err)
	began := w.clock.Now().Add(-1)
	w.claim("m-1", "t-1")
	w.untilPhase(infrav1.HostInUse)
	expected := expectation{ids: []string{serverID}, proof: func(string) bool { return true }}
	w.inventory.readings.list(zone, stale, expected, began)
	w.inventory.readings.list(zone, nil, expected, began)
	if _, err := w.reconcile(); err != nil || w.phase() != infrav1.HostInUse || w.host().Status.Server.Name != "m-1" || w.host().Status.MissingSince != nil {
		t.Errorf("%v: %+v", err, w.host().Status)
	}
}

func (w *world) pause() {
	cluster := &clusterv1.Cluster{}
	w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "c"}, cluster))
	paused := true
	cluster.Spec.Paused = &paused
	w.must(w.client.Update(w.ctx, cluster))
}

func TestAClaimWhoseMachineIsGoneIsLeftAlone(t *testing.T) {
	w := inUse(t)
	w.must(w.client.Delete(w.ctx, &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-1"}}))
	w.untilPhase(infrav1.HostStranded)
	for range 3 {
		w.must(w.step())
	}
	for _, call := range w.cloud.Calls() {
		if !strings.HasPrefix(call.Name, "List") {
			t.Errorf("call %v for a stranded host", call)
		}
	}
	const says = "claimed, but no Machine holds this claim; it stays as it is until the Machine comes back, a person releases it, or the sweep wipes it, where orphanReclaim.activeReclaim is on"
	if told := w.events(); w.message(infrav1.AvailableCondition) != says || !slices.Contains(told, "Warning StrandedHost "+says) {
		t.Errorf("Available says %q; events %q", w.message(infrav1.AvailableCondition), told)
	}
	if n := testutil.ToFloat64(w.counted().orphans.WithLabelValues(zone, "stranded")); n != 1 {
		t.Errorf("%v stranded", n)
	}
}

func TestAnotherMachineOfTheSameNameDoesNotHoldTheClaim(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.claim("m-1", "t-1")
	m := &infrav1.ScalewayAppleSiliconMachine{}
	w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "m-1"}, m))
	m.Spec.HostRef.ClaimToken = "t-2"
	w.must(w.client.Update(w.ctx, m))
	w.untilPhase(infrav1.HostStranded)
	if len(w.mutations()) != 0 {
		t.Errorf("mutations %v", w.mutations())
	}
}

// A quota refuses each new Secret, also of a name that is taken: the one there is takes
// the credentials, and without one the claim waits until there is room.
func TestAQuotaForSecretsHoldsUpNoClaimThatHasOne(t *testing.T) {
	for name, there := range map[string]bool{"one of an earlier claim": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.untilPhase(infrav1.HostAvailable)
			if there {
				w.must(w.client.Create(w.ctx, &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: host.BootstrapSecretName("m-1")},
					Data:       map[string][]byte{host.KeyClaimToken: []byte("t-0"), host.KeySudoPassword: []byte("older")},
				}))
			}
			w.quota = apierrors.NewForbidden(corev1.Resource("secrets"), host.BootstrapSecretName("m-1"), errors.New("exceeded quota"))
			w.claim("m-1", "t-1")
			said := ""
			for began := w.clock.Now(); w.clock.Since(began) < 5*time.Minute; {
				if err := w.step(); err != nil {
					said = err.Error()
				}
			}
			secret := w.secret()
			if staged := secret != nil && string(secret.Data[host.KeyClaimToken]) == "t-1"; staged != there {
				t.Fatalf("staged %t", staged)
			}
			if !there && !strings.Contains(said, "exceeded quota") {
				t.Errorf("the reason is not told: %q", said)
			}
			w.quota = nil
			w.untilPhase(infrav1.HostInUse)
			if got := string(w.secret().Data[host.KeySudoPassword]); got != "firstpassword" {
				t.Errorf("staged %q", got)
			}
		})
	}
}
