package sshkey

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/fleetkey"
	"github.com/macfleet/macfleet/internal/fleetsecret"
)

const (
	clusterID = "0a1b2c3d-0000-4000-8000-000000000001"
	namespace = "macs"
	fleet     = "builders"
)

// world is a vendor's project with the keys of persons, of another management cluster
// and of one fleet of ours, and what the API server holds of that fleet.
type world struct {
	t       *testing.T
	vendor  cloudtest.Cloud
	api     client.Client
	sweeper *Sweeper
	clock   *clocktesting.FakeClock
	public  string
	secret  *corev1.Secret
	others  []string
	forgot  []string
	// fail is the error of every uncached list.
	fail error
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))}
	w.public, w.secret = newSecret(t)
	w.register(fleetkey.Owner{Cluster: clusterID, Namespace: namespace, Fleet: fleet})
	// The same key under a person's name, and as another management cluster has it.
	w.others = []string{"ada@example.com", "macfleet-builders", fleetkey.Name(fleetkey.Owner{Cluster: "ffffffff", Namespace: namespace, Fleet: fleet}, w.public)}
	for _, name := range w.others {
		if err := w.vendor.EnsureSSHKey(t.Context(), name, w.public); err != nil {
			t.Fatal(err)
		}
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w.api = clienttest.AsServed(clienttest.NewBuilder(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if w.fail != nil {
				return w.fail
			}
			return c.List(ctx, list, opts...)
		},
	}).Build())
	w.sweeper = New(Options{
		Reader: w.api, Keys: &w.vendor, ClusterID: clusterID, Clock: w.clock,
		Forget: func(name string) { w.forgot = append(w.forgot, name) },
	})
	return w
}

func newSecret(t *testing.T) (public string, secret *corev1.Secret) {
	t.Helper()
	half, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	line, err := ssh.NewPublicKey(half)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line))), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fleet + "-ssh"},
		Data:       map[string][]byte{"ssh-privatekey": pem.EncodeToMemory(block)},
	}
}

func (w *world) register(owner fleetkey.Owner) {
	w.t.Helper()
	if err := w.vendor.EnsureSSHKey(w.t.Context(), fleetkey.Name(owner, w.public), w.public); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, o := range objects {
		if err := w.api.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// later lets the grace pass between two sweeps.
func (w *world) later() {
	w.t.Helper()
	for range 2 {
		if err := w.sweeper.sweep(w.t.Context()); err != nil && w.fail == nil {
			w.t.Fatal(err)
		}
		w.clock.Step(grace)
	}
}

// names of the keys that the vendor has.
func (w *world) names() []string {
	w.t.Helper()
	keys, err := w.vendor.ListSSHKeys(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, key := range keys {
		names = append(names, key.Name)
	}
	return names
}

func (w *world) expect(registered bool) {
	w.t.Helper()
	names := w.names()
	ours := fleetkey.Name(fleetkey.Owner{Cluster: clusterID, Namespace: namespace, Fleet: fleet}, w.public)
	if got := slices.Contains(names, ours); got != registered {
		w.t.Errorf("the fleet's key is registered: %t, want %t", got, registered)
	}
	for _, name := range w.others {
		if !slices.Contains(names, name) {
			w.t.Errorf("the key %s, which is not ours, is gone", name)
		}
	}
}

func machineOf(name string, change func(*infrav1.ScalewayAppleSiliconMachine)) client.Object {
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}}}
	change(m)
	return m
}

// TestTheKeyOfAFleetThatIsGoneIsTakenAway, and no other, also not the same key under
// a person's name or another management cluster's.
func TestTheKeyOfAFleetThatIsGoneIsTakenAway(t *testing.T) {
	w := newWorld(t)
	if err := w.sweeper.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(grace - time.Second)
	if err := w.sweeper.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect(true) // a Secret may be restored
	w.clock.Step(time.Second)
	if err := w.sweeper.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect(false)
	if len(w.forgot) == 0 {
		t.Error("who registered it believes that it is there")
	}
	w.later() // and nothing more
	w.expect(false)
}

func TestTheKeyOfAFleetStays(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"its own word":                    {machineOf("mac-1", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.FleetName = fleet })},
		"its label's":                     {machineOf("mac-1", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Labels[infrav1.FleetLabel] = fleet })},
		"its deployment's":                {machineOf("mac-1", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Labels[clusterv1.MachineDeploymentNameLabel] = fleet })},
		"its Cluster's":                   {machineOf("mac-1", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Labels[clusterv1.ClusterNameLabel] = fleet })},
		"a MachineDeployment of its name": {&clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fleet}}},
		"a MachineDeployment with its template": {
			&infrav1.ScalewayAppleSiliconMachineTemplate{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "t"},
				Spec: infrav1.ScalewayAppleSiliconMachineTemplateSpec{Template: infrav1.MachineTemplateResource{
					Spec: infrav1.MachineClass{FleetName: fleet},
				}},
			},
			&clusterv1.MachineDeployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"},
				Spec: clusterv1.MachineDeploymentSpec{Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
					InfrastructureRef: clusterv1.ContractVersionedObjectReference{Name: "t"},
				}}},
			},
		},
		"a Cluster of its name": {&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fleet}}},
		"a host that is not wiped": {&infrav1.ScalewayAppleSiliconHost{
			ObjectMeta: metav1.ObjectMeta{Name: "h1"},
			Spec:       infrav1.ScalewayAppleSiliconHostSpec{ClaimRef: &infrav1.ClaimReference{Namespace: namespace, Name: "mac-9"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, objects...)
			w.later()
			w.expect(true)
		})
	}
	t.Run("its Secret", func(t *testing.T) {
		w := newWorld(t)
		w.create(w.secret)
		w.later()
		w.expect(true)
	})
	t.Run("what cannot be read", func(t *testing.T) {
		w := newWorld(t)
		if err := w.sweeper.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.fail = errors.New("the API server is away")
		w.later()
		w.fail = nil
		if err := w.sweeper.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.expect(true)
	})
	t.Run("another manager's namespace", func(t *testing.T) {
		w := newWorld(t)
		w.sweeper.Namespace = "elsewhere"
		w.later()
		w.expect(true)
	})
	t.Run("it came back meanwhile", func(t *testing.T) {
		w := newWorld(t)
		if err := w.sweeper.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.create(w.secret)
		w.clock.Step(grace)
		w.later()
		if err := w.api.Delete(t.Context(), w.secret); err != nil {
			t.Fatal(err)
		}
		if err := w.sweeper.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.expect(true) // the hour begins anew
	})
}

// A fleet whose Secret is restored in the very moment of the deletion has its key.
func TestAFleetThatComesBackHasItsKeyAgain(t *testing.T) {
	w := newWorld(t)
	w.sweeper.Forget = func(string) {
		if client.IgnoreAlreadyExists(w.api.Create(t.Context(), w.secret.DeepCopy())) != nil {
			t.Error("restoring the Secret failed")
		}
	}
	w.later()
	w.expect(true)
}

// Nor is it lost to a fleet that could not be looked at after the deletion.
func TestAKeyIsRegisteredAgainWhereNobodyCanLook(t *testing.T) {
	w := newWorld(t)
	w.sweeper.Forget = func(string) { w.fail = errors.New("the API server is away") }
	w.later()
	w.expect(true)
}

// The key before goes once every Mac of the fleet was given the new one.
func TestAReplacedKeyIsTakenAway(t *testing.T) {
	w := newWorld(t)
	next, secret := newSecret(t)
	w.create(secret, machineOf("mac-1", func(m *infrav1.ScalewayAppleSiliconMachine) {
		m.Spec.FleetName, m.Spec.ProviderID = fleet, "scw-applesilicon://fr-par-1/x"
		m.Status.Applied.SSHKey = fleetkey.Fingerprint(w.public)
	}))
	w.later()
	w.expect(true)
	m := &infrav1.ScalewayAppleSiliconMachine{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "mac-1"}, m); err != nil {
		t.Fatal(err)
	}
	m.Status.Applied.SSHKey = fleetkey.Fingerprint(next)
	if err := w.api.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.later()
	w.expect(false)
}

// A key that somebody took away at the vendor is registered again when its fleet next
// needs it, though the manager goes on.
func TestAKeyThatVanishesIsRegisteredAgain(t *testing.T) {
	w := newWorld(t)
	store := &fleetsecret.Store{Client: w.api, Reader: w.api, Keys: &w.vendor, ClusterID: clusterID}
	w.sweeper.Known, w.sweeper.Forget = store.Names, store.Forget
	w.create(w.secret)
	of := fleetsecret.Fleet{Namespace: namespace, Name: fleet}
	use := func() {
		t.Helper()
		if _, _, err := store.SSH(t.Context(), of); err != nil {
			t.Fatal(err)
		}
	}
	use()
	keys, err := w.vendor.ListSSHKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.vendor.DeleteSSHKey(t.Context(), keys[0].ID); err != nil {
		t.Fatal(err)
	}
	use()
	w.expect(false)
	if err := w.sweeper.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if store.Registered(of) {
		t.Error("a claim would not look whether the key is registered")
	}
	use()
	w.expect(true)
}

// list is one answer of the vendor: what it says of the fleet's key.
type list string

const (
	has      list = "the key"
	lacks    list = "other keys"
	disabled list = "the key, disabled"
	doubled  list = "the key, disabled and not"
	others   list = "another key of its name"
	empty    list = "nothing"
	failed   list = "an error"
)

// lists is a vendor whose lists are told.
type lists struct {
	Keys
	name, public string
	next         list
}

func (l *lists) ListSSHKeys(context.Context) ([]cloud.SSHKey, error) {
	person := cloud.SSHKey{ID: "key-1", Name: "ada@example.com", PublicKey: l.public}
	ours := cloud.SSHKey{ID: "key-2", Name: l.name, PublicKey: l.public}
	off, other := ours, ours
	off.ID, off.Disabled = "key-3", true
	other.PublicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	switch l.next {
	case failed:
		return nil, errors.New("the vendor is away")
	case empty:
		return nil, nil
	case has:
		return []cloud.SSHKey{person, ours}, nil
	case disabled:
		return []cloud.SSHKey{person, off}, nil
	case doubled:
		return []cloud.SSHKey{ours, off}, nil
	case others:
		return []cloud.SSHKey{other}, nil
	}
	return []cloud.SSHKey{person}, nil
}

// In each case the key is registered again between two lists wherever it was forgotten.
func TestWhenAKnownKeyIsForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		lists []list
		times int
	}{
		"listed":                     {[]list{has, has}, 0},
		"missing":                    {[]list{has, lacks}, 1},
		"missing at the first look":  {[]list{lacks}, 1},
		"disabled":                   {[]list{has, disabled}, 1},
		"disabled, and another made": {[]list{disabled, doubled}, 1},
		"its name is on another key": {[]list{has, others}, 1},
		"lists that never have it":   {[]list{lacks, lacks, lacks, lacks}, 1},
		"missing a second time":      {[]list{lacks, has, lacks}, 2},
		"no list":                    {[]list{has, failed, failed, failed}, 0},
		"one empty list":             {[]list{has, empty, has}, 0},
		"an empty list now and then": {[]list{has, empty, has, empty, has, empty}, 0},
		"the only key is taken away": {[]list{has, empty, empty}, 1},
		"empty lists for ever":       {[]list{empty, empty, empty, empty, empty}, 1},
		"no list between empty ones": {[]list{has, empty, failed, empty}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(w.secret)
			vendor := &lists{Keys: &w.vendor, public: w.public, name: fleetkey.Name(fleetkey.Owner{Cluster: clusterID, Namespace: namespace, Fleet: fleet}, w.public)}
			w.sweeper.Keys = vendor
			w.sweeper.Known = func() []string { return []string{vendor.name} }
			for _, vendor.next = range c.lists {
				if err := w.sweeper.sweep(t.Context()); (err != nil) != (vendor.next == failed) {
					t.Fatal(err)
				}
			}
			if len(w.forgot) != c.times {
				t.Errorf("forgotten %d times, want %d", len(w.forgot), c.times)
			}
		})
	}
}
