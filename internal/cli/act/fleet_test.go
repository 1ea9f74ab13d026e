package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/fleetkey"
	"github.com/macfleet/macfleet/internal/fleetsecret"
)

// The vendor's key that is in use.
const (
	oldAccessKey = "SCWAAAAAAAAAAAAAAAAA"
	oldSecretKey = "11111111-2222-4333-8444-555555555555"
)

func newKey(t *testing.T) (private, public []byte) {
	t.Helper()
	private, public, err := fleetsecret.NewKey("test")
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}

func secretOf(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: name, UID: "s", ResourceVersion: "5"}, Data: data}
}

// keyed is a fleet with two Macs, and the key that they have.
func keyed(t *testing.T) (Fleet, []byte) {
	t.Helper()
	private, public := newKey(t)
	f := Fleet{Namespace: clitest.Namespace, Name: clitest.Builders, Leaving: []string{"h-7"}}
	f.SSH = secretOf(clitest.Builders+"-ssh", map[string][]byte{fleetkey.KeyPrivate: private, fleetkey.KeyPublic: public})
	f.Signing = secretOf(clitest.Builders+"-agent-signing", nil)
	f.Signing.Labels = map[string]string{clusterv1.ClusterNameLabel: "macfleet"}
	for i := range 2 {
		m := clitest.Machine(i+1, "Running")
		m.Spec.HostRef = &infrav1.HostReference{Name: "h"}
		m.Spec.ProviderID, m.Status.Applied.SSHKey = "id", fleetkey.Fingerprint(string(public))
		f.Machines = append(f.Machines, &m)
	}
	return f, public
}

// A key is replaced in two acts, and nobody is locked out between them.
func TestAFleetsKeyIsReplaced(t *testing.T) {
	f, old := keyed(t)
	c := newFake(t, &snapshot.Snapshot{}, interceptor.Funcs{})
	f.SSH.ResourceVersion = ""
	if err := c.Create(t.Context(), f.SSH); err != nil {
		t.Fatal(err)
	}
	if _, err := (FinishKey{}).Plan(f); err == nil || !strings.Contains(err.Error(), "is not being replaced") {
		t.Errorf("finished before it began: %v", err)
	}
	run := func(plan Plan, err error) {
		t.Helper()
		if err == nil {
			_, err = plan.run(t.Context(), c, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		get(t, c, f.SSH)
	}
	private, public := newKey(t)
	run(ReplaceKey{private, public}.Plan(f))
	keys, err := fleetkey.Read(f.SSH)
	if err != nil || len(keys) != 2 || keys[0].Public() != strings.TrimSpace(string(public)) || keys[1].Public() != strings.TrimSpace(string(old)) || string(f.SSH.Data[fleetkey.KeyPublic]) != string(public) {
		t.Fatalf("the Secret has %v: %v", keys, err)
	}
	if _, err := (ReplaceKey{private, public}).Plan(f); err == nil || !strings.Contains(err.Error(), "is being replaced already") {
		t.Errorf("replaced twice: %v", err)
	}
	f.Machines[0].Status.Applied.SSHKey = fleetkey.Fingerprint(string(public))
	if _, err := (FinishKey{}).Plan(f); err == nil || !strings.Contains(err.Error(), "is not on all of its Macs yet, 1 without it: "+f.Machines[1].Name) {
		t.Errorf("finished too early: %v", err)
	}
	f.Machines[1].Spec.ProviderID = "" // its Mac is claimed, and may know the old key alone
	if _, err := (FinishKey{}).Plan(f); err == nil || !strings.Contains(err.Error(), "1 without it: "+f.Machines[1].Name) || strings.Contains(err.Error(), "restart-agent") {
		t.Errorf("finished before a claimed Mac was set up: %v", err)
	}
	waits := clitest.Machine(3, "Pending")
	waits.Spec.HostRef = nil
	f.Machines = append(f.Machines, &waits)
	f.Machines[1].Status.Applied.SSHKey = f.Machines[0].Status.Applied.SSHKey
	if plan, err := (FinishKey{}).Plan(f); err != nil || !strings.Contains(plan.Says[0], "all of its Macs (2) have it") {
		t.Errorf("with a Machine that has no Mac: %q, %v", plan.Says, err)
	}
	run(FinishKey{}.Plan(f))
	if keys, err := fleetkey.Read(f.SSH); err != nil || len(keys) != 1 || keys[0].Public() != strings.TrimSpace(string(public)) {
		t.Errorf("the Secret has %v: %v", keys, err)
	}
}

// Nothing that is printed of a plan holds half a key that opens something.
func TestNoPlanShowsAKey(t *testing.T) {
	f, _ := keyed(t)
	private, public := newKey(t)
	vendor := secretOf("macfleet-vendor", map[string][]byte{accessKeyName: []byte(oldAccessKey), secretKeyName: []byte(oldSecretKey)})
	swapped := secretOf("macfleet-vendor", map[string][]byte{accessKeyName: []byte(oldSecretKey), secretKeyName: []byte(oldAccessKey)})
	turned := secretOf("macfleet-vendor", map[string][]byte{accessKeyName: []byte(oldAccessKey), "SCW_DEFAULT_PROJECT_ID": []byte(oldSecretKey)})
	for name, planned := range map[string]func() (Plan, error){
		"replace":     func() (Plan, error) { return ReplaceKey{private, public}.Plan(f) },
		"credentials": func() (Plan, error) { return VendorKey{AccessKey: "SCWNEW", SecretKey: "new-secret"}.Plan(vendor) },
		"swapped":     func() (Plan, error) { return VendorKey{AccessKey: "SCWNEW", SecretKey: "new-secret"}.Plan(swapped) },
		"the project": func() (Plan, error) { return VendorKey{AccessKey: "SCWNEW", SecretKey: "new-secret"}.Plan(turned) },
	} {
		plan, err := planned()
		if err != nil {
			t.Fatal(err)
		}
		shown := strings.Join(plan.Lines(), "\n") + plan.Steps[0].did()
		for _, secret := range []string{"PRIVATE", string(private), "new-secret", oldSecretKey, "data"} {
			if strings.Contains(shown, secret) {
				t.Errorf("%s shows %q: %s", name, secret, shown)
			}
		}
	}
}

// What each verb says and sends; keys are another each time, and left out.
func TestPlansForFleets(t *testing.T) {
	clitest.Golden(t, "fleetplans.txt", screen.Screen{}, func(out io.Writer, _ screen.Screen) error {
		show := func(verb string, plan Plan, err error) {
			fmt.Fprintln(out, verb)
			if err != nil {
				fmt.Fprintf(out, "  refused: %v\n", err)
				return
			}
			for _, step := range plan.Steps {
				if step.Secret {
					fmt.Fprintf(out, "  %s\n", step.did())
				}
			}
			plan.Steps = nil
			describe(t, out, plan)
		}
		retire := func(name string, change func(*Fleet)) {
			f, _ := keyed(t)
			change(&f)
			plan, err := Retire{}.Plan(f)
			show("retire, "+name, plan, err)
			for _, step := range plan.Steps {
				fmt.Fprintf(out, "  DELETE %s\n", step.Object.GetName())
			}
		}
		deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: clitest.Builders}}
		wanted := deployment.DeepCopy()
		wanted.Spec.Replicas = ptr.To(int32(2))
		retire("with Macs", func(f *Fleet) { f.Deployments = []*clusterv1.MachineDeployment{wanted} })
		retire("with Machines that go", func(f *Fleet) { f.Deployments = []*clusterv1.MachineDeployment{deployment} })
		retire("scaled to 0", func(f *Fleet) { f.Deployments, f.Machines = []*clusterv1.MachineDeployment{deployment}, nil })
		retire("of a Cluster's name", func(f *Fleet) { f.Machines, f.Others = nil, []string{"Cluster macfleet-builders"} })
		retire("two make it", func(f *Fleet) {
			f.Machines, f.Deployments = nil, []*clusterv1.MachineDeployment{deployment, wanted}
		})
		retire("a name beside another's Secret", func(f *Fleet) { f.Machines, f.Signing = nil, nil })
		retire("gone", func(f *Fleet) { f.Machines = nil })
		retire("its name mistyped", func(f *Fleet) { f.Machines, f.SSH, f.Signing = nil, nil, nil })

		f, public := keyed(t)
		plan, err := ReplaceKey{f.SSH.Data[fleetkey.KeyPrivate], public}.Plan(f)
		for i := range plan.Says[:2] {
			plan.Says[i] = strings.ReplaceAll(plan.Says[i], fleetkey.Fingerprint(string(public)), "KEY")
		}
		show("ssh-key replace", plan, err)
		f.Machines = nil
		_, err = ReplaceKey{}.Plan(f)
		show("ssh-key replace, another's Secret", Plan{}, err)
		_, err = FinishKey{}.Plan(f)
		show("ssh-key finish, another's Secret", Plan{}, err)

		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: "macfleet", ResourceVersion: "3"}}
		running, leaving := clitest.Machine(1, "Running"), clitest.Machine(2, "Deleting")
		leaving.DeletionTimestamp = ptr.To(metav1.NewTime(clitest.Now()))
		for _, paused := range []bool{false, true} {
			cluster.Spec.Paused = &paused
			for _, resume := range []bool{false, true} {
				plan, err := PauseCluster{resume}.Plan(Cluster{Cluster: cluster, Machines: []*infrav1.ScalewayAppleSiliconMachine{&running, &leaving}})
				fmt.Fprintf(out, "cluster, resume %t, paused %t\n", resume, paused)
				if err != nil {
					fmt.Fprintf(out, "  refused: %v\n", err)
					continue
				}
				describe(t, out, plan)
			}
		}
		away := &controlplanev1.ExternalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: "macfleet", ResourceVersion: "4"}}
		check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: clitest.Builders, ResourceVersion: "6"}}
		away.Spec.ControlPlaneEndpoint.Host = "192.0.2.1"
		for _, id := range []string{"", "this", "another"} {
			away.Spec.ClusterID = id
			of := Cluster{Cluster: cluster, Machines: []*infrav1.ScalewayAppleSiliconMachine{&running}, ControlPlane: away, Checks: []*clusterv1.MachineHealthCheck{check}}
			for _, end := range []bool{false, true} {
				if end {
					of.Checks, of.Paused = nil, of.Checks
				}
				plan, err := Rejoin{Here: "this", End: end}.Plan(of)
				show(fmt.Sprintf("rejoin of one at %s, end %t", id, end), plan, err)
				for _, step := range plan.Steps {
					body, _ := step.body(true)
					fmt.Fprintf(out, "  PATCH %T %s\n", step.Object, body)
				}
			}
		}
		_, err = Rejoin{End: true}.Plan(Cluster{Cluster: cluster})
		show("rejoin, end, where none is paused", Plan{}, err)
		vendor := secretOf("macfleet-vendor", map[string][]byte{accessKeyName: []byte(oldAccessKey), secretKeyName: []byte("s"), "SCW_DEFAULT_PROJECT_ID": []byte("p")})
		plan, err = VendorKey{AccessKey: "SCWNEW", SecretKey: "n", From: "what was piped"}.Plan(vendor)
		show("pool credentials", plan, err)
		return nil
	})
}

// The copy that kubectl apply left of an earlier key goes with it; a key that is there already is none anew.
func TestTheVendorsKey(t *testing.T) {
	vendor := secretOf("macfleet-vendor", map[string][]byte{accessKeyName: []byte(oldAccessKey), secretKeyName: []byte("s\n")})
	if _, err := (VendorKey{AccessKey: oldAccessKey, SecretKey: "s"}).Plan(vendor); err == nil || !strings.Contains(err.Error(), "holds that very key already") {
		t.Errorf("the same: %v", err)
	}
	if _, err := (VendorKey{AccessKey: "SCWNEW", SecretKey: "n", From: "what was piped"}).Plan(secretOf("another", nil)); err == nil || !strings.Contains(err.Error(), "--secret") {
		t.Errorf("another Secret: %v", err)
	}
	vendor.Annotations, vendor.ResourceVersion = map[string]string{lastApplied: "{}", "a": "b"}, ""
	c := newFake(t, &snapshot.Snapshot{}, interceptor.Funcs{})
	if err := c.Create(t.Context(), vendor); err != nil {
		t.Fatal(err)
	}
	plan, err := VendorKey{AccessKey: oldAccessKey, SecretKey: "s"}.Plan(vendor)
	if err == nil {
		_, err = plan.run(t.Context(), c, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	get(t, c, vendor)
	if len(vendor.Annotations) != 1 || string(vendor.Data[secretKeyName]) != "s" {
		t.Errorf("%v", vendor)
	}
}

// A plan that ends in its middle names what is done, and shows no secret.
func TestHalfARetirementIsTold(t *testing.T) {
	f, _ := keyed(t)
	f.Machines = nil
	deletions := 0
	c := newFake(t, &snapshot.Snapshot{}, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if deletions++; deletions == 4 { // both were tried before
				return errors.New("the line is cut")
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	for _, secret := range []*corev1.Secret{f.SSH, f.Signing} {
		secret.ResourceVersion = ""
		if err := c.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	look := func(context.Context) (Plan, error) { return Retire{}.Plan(f) }
	err := Run(t.Context(), c, agree(t, look), false, look)
	var partly PartlyError
	if !errors.As(err, &partly) || len(partly.Done) != 1 || partly.Done[0] != "the deletion of "+clitest.Namespace+"/"+clitest.Builders+"-ssh" {
		t.Errorf("says %v", err)
	}
}

// What is another Cluster's is left alone, and so is a health check that somebody paused.
func TestWhatAClusterHas(t *testing.T) {
	s := checked()
	s.Clusters[0].Spec.ControlPlaneRef.Name = "cp"
	for _, namespace := range []string{"another", clitest.Namespace} {
		s.ControlPlanes = append(s.ControlPlanes, controlplanev1.ExternalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cp"}})
	}
	others, paused := s.HealthChecks[0], *s.HealthChecks[0].DeepCopy()
	others.Spec.ClusterName, paused.Annotations = "another", map[string]string{clusterv1.PausedAnnotation: ""}
	s.HealthChecks = append(s.HealthChecks, others, paused)
	s.Machines[5].Labels = nil
	c := ClusterOf(s, &s.Clusters[0])
	if len(c.Machines) != 5 || c.ControlPlane != &s.ControlPlanes[1] || len(c.Checks) != 1 || c.Checks[0] != &s.HealthChecks[0] || len(c.Paused) != 1 || c.Paused[0] != &s.HealthChecks[2] {
		t.Errorf("%+v", c)
	}
}

// What is sent is sent as it is agreed to, however often it is planned.
func TestAKeyIsTheSameInEachPlan(t *testing.T) {
	f, _ := keyed(t)
	private, public := newKey(t)
	var sent [2][]byte
	for i := range sent {
		plan, err := ReplaceKey{private, public}.Plan(f)
		if err != nil {
			t.Fatal(err)
		}
		if sent[i], err = json.Marshal(plan.Steps[0].Patch); err != nil {
			t.Fatal(err)
		}
	}
	if string(sent[0]) != string(sent[1]) {
		t.Error("two plans differ")
	}
}
