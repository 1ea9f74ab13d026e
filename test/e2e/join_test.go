package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/tracing/tracingtest"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestPodsAndNodes holds what a Mac as a node must do beyond running: refuse what
// it can't honour, keep its guests through a restart of the agent, and stay away
// once it was let go. It shares one sandbox.
func TestPodsAndNodes(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	spans := tracingtest.Start(t)
	f := start(t, world.Options{Hosts: 2, ManagerArgs: []string{"--tracing-endpoint=" + spans.URL}})
	f.awaitPool(2)
	f.scale(1)
	f.awaitRunning(1)

	t.Run("spans tell of the claim", func(t *testing.T) { f.on(t).spansTellOfTheClaim(spans) })
	t.Run("a claim costs few calls", func(t *testing.T) { f.on(t).aClaimCostsFewCalls() })
	t.Run("nothing happens at rest", func(t *testing.T) { f.on(t).nothingHappensAtRest() })
	t.Run("the manager is held to its rights", func(t *testing.T) { f.on(t).managerIsHeldToItsRights() })
	t.Run("metrics need a token that may", func(t *testing.T) { f.on(t).metricsNeedATokenThatMay() })
	t.Run("agents have no ClusterRole", func(t *testing.T) { f.on(t).agentsHaveNoClusterRole() })
	t.Run("a Pod with two containers is refused by field name", func(t *testing.T) { f.on(t).refusesTwoContainers() })
	t.Run("a foreign common name stays Pending", func(t *testing.T) { f.on(t).foreignNameStaysPending() })
	t.Run("guests survive a restart of the agent", func(t *testing.T) { f.on(t).guestsSurviveAgentRestart() })
	t.Run("a deleted Node of a live Machine heals", func(t *testing.T) { f.on(t).deletedNodeHeals() })
	t.Run("a taint of the registration goes with the profile", func(t *testing.T) { f.on(t).registrationTaintGoes() })
	t.Run("no manager starts where it must not", func(t *testing.T) { f.on(t).noManagerStartsWhereItMustNot() })
}

// on is the same sandbox for a subtest.
func (f *fleet) on(t *testing.T) *fleet {
	sub := *f
	sub.T = t
	return &sub
}

// refusesTwoContainers: the policy refuses what selects Macs when it is made, and the
// agent what came to its Mac all the same.
func (f *fleet) refusesTwoContainers() {
	const field = "spec.containers"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "two", Namespace: metav1.NamespaceDefault}, Spec: macPod()}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "second", Image: "ghcr.io/cirruslabs/macos-tahoe-base:1"})
	if err := f.client.Create(f.Context(), pod.DeepCopy()); err == nil || !strings.Contains(err.Error(), "cannot honour: "+field) {
		f.Errorf("made with %v, want a refusal that names %s", err, field)
	}
	pod.Spec.NodeSelector = nil // it only tolerates Macs
	if err := f.client.Create(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
	var waits corev1.ContainerStateWaiting
	f.await("the refusal", func() (string, bool) {
		if err := f.client.Get(f.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err.Error(), false
		}
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Waiting != nil {
				waits = *c.State.Waiting
			}
		}
		return fmt.Sprint(pod.Status.Phase, waits), waits.Reason == "CreateContainerConfigError"
	})
	if !strings.Contains(waits.Message, field) {
		f.Errorf("message %q does not name %s", waits.Message, field)
	}
	if err := f.client.Delete(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

// foreignNameStaysPending takes a genuine bootstrap token and asks for another
// machine's certificate.
func (f *fleet) foreignNameStaysPending() {
	token := f.mintToken()
	config := rest.AnonymousClientConfig(f.world.Config())
	config.BearerToken = token
	stranger, err := client.New(config, client.Options{Scheme: f.client.Scheme()})
	if err != nil {
		f.Fatal(err)
	}
	request := certificateRequest(f.T, "system:node:somebody-else")
	// The API server learns of the token by watching.
	f.await("the API server to know the token", func() (string, bool) {
		err := stranger.Create(f.Context(), request.DeepCopy(), client.DryRunAll)
		return fmt.Sprint(err), err == nil
	})
	if err := stranger.Create(f.Context(), request); err != nil {
		f.Fatalf("a member of the group may ask: %v", err)
	}
	own := certificateRequest(f.T, "system:node:"+f.infraMachines()[0].Name)
	if err := stranger.Create(f.Context(), own); err != nil {
		f.Fatal(err)
	}
	// A token that the manager did not mint for this machine is no better. Both must
	// be seen and left alone: wait until the manager has surely looked, by an act of
	// its own that comes later.
	f.scale(2)
	f.awaitRunning(2)
	f.scale(1)
	f.awaitRunning(1)
	for _, csr := range []*certificatesv1.CertificateSigningRequest{request, own} {
		if err := f.client.Get(f.Context(), client.ObjectKeyFromObject(csr), csr); err != nil {
			f.Fatal(err)
		}
		if len(csr.Status.Conditions) != 0 || len(csr.Status.Certificate) != 0 {
			f.Errorf("%s was answered: %v", csr.Name, csr.Status.Conditions)
		}
	}
}

// mintToken makes a bootstrap token of the Macs' group, as an attacker might have
// stolen it.
func (f *fleet) mintToken() string {
	secret := bootstrapToken("stolen", "system:bootstrappers:macfleet")
	secret.StringData["expiration"] = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	if err := f.client.Create(f.Context(), secret); err != nil {
		f.Fatal(err)
	}
	return "stolen.0123456789abcdef"
}

func certificateRequest(t *testing.T, commonName string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: commonName, Organization: []string{"system:nodes"}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
}

// guestsSurviveAgentRestart restarts the agent as launchd would, over SSH with the
// fleet's key.
func (f *fleet) guestsSurviveAgentRestart() {
	f.deploy(1)
	before := f.awaitPods(1)[0]
	pid := f.agentPID()
	f.root("/bin/launchctl kickstart -k system/dev.macfleet.tart-kubelet")
	restarted := time.Now()
	if now := f.agentPID(); now == pid {
		f.Fatalf("the agent was not restarted: pid %s", pid)
	}
	f.await("the new agent to renew the Node's lease", func() (string, bool) {
		var lease coordinationv1.Lease
		key := client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: before.Spec.NodeName}
		if err := f.client.Get(f.Context(), key, &lease); err != nil || lease.Spec.RenewTime == nil {
			return fmt.Sprint(err), false
		}
		return lease.Spec.RenewTime.String(), lease.Spec.RenewTime.After(restarted)
	})
	// The old agent is gone for good when its guest can still be deleted by the new.
	after := f.awaitPods(1)[0]
	if after.UID != before.UID || after.Status.ContainerStatuses[0].RestartCount != 0 ||
		after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID {
		f.Errorf("the guest did not survive: before %v, after %v", before.Status.ContainerStatuses, after.Status.ContainerStatuses)
	}
	f.undeploy()
}

// agentPID is the process id of the agent on the one Mac in use.
func (f *fleet) agentPID() string {
	f.Helper()
	for line := range strings.Lines(f.root("/bin/launchctl print system/dev.macfleet.tart-kubelet")) {
		if pid, found := strings.CutPrefix(strings.TrimSpace(line), "pid = "); found {
			return pid
		}
	}
	f.Fatal("launchd shows no pid of the agent")
	return ""
}

// deletedNodeHeals deletes the Node of a live Machine: it comes back, by a new
// join permit and as another object.
func (f *fleet) deletedNodeHeals() {
	node := f.nodes()[0]
	if err := f.client.Delete(f.Context(), &node); err != nil {
		f.Fatal(err)
	}
	f.await("another Node of the same name", func() (string, bool) {
		for _, now := range f.nodes() {
			if now.Name == node.Name && now.UID != node.UID {
				return string(now.UID), true
			}
		}
		return "no Node", false
	})
	f.awaitRunning(1)
}

// registrationTaintGoes changes the profile after a Mac was told what to register its
// Node with, and before the Node is there: nobody has looked at it with the taint on.
func (f *fleet) registrationTaintGoes() {
	const theirs = "example.com/theirs"
	first := f.nodes()[0].Name
	f.scale(2)
	f.await("the second Mac to be told of its Node", func() (string, bool) {
		for _, h := range f.hosts() {
			if c := h.Spec.ClaimRef; c != nil && c.Name != first && h.Spec.Record.Registration != nil {
				return fmt.Sprint(h.Spec.Record.Registration.Taints), true
			}
		}
		return "nothing on record", false
	})
	f.setProfile(`{"spec":{"node":{"taints":[]}}}`)
	// Kubernetes' own taints, and those of others, are nobody's but theirs.
	f.await("the second Node", func() (string, bool) {
		for _, node := range f.nodes() {
			if node.Name == first {
				continue
			}
			// The Node may have no taints left by now, or others by the next moment.
			patch := client.MergeFromWithOptions(node.DeepCopy(), client.MergeFromWithOptimisticLock{})
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: theirs, Effect: corev1.TaintEffectPreferNoSchedule})
			err := f.client.Patch(f.Context(), &node, patch)
			return fmt.Sprint(err), err == nil
		}
		return "no second Node", false
	})
	f.awaitRunning(2)
	f.await("both Nodes without the taint of their registration", func() (string, bool) {
		seen, kept, plain := "", 0, 0
		for _, node := range f.nodes() {
			seen += fmt.Sprint(node.Name, node.Spec.Taints, node.Annotations[infrav1.KeptAnnotation], " ")
			if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == theirs }) {
				kept++
			}
			if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "tuist.dev/macos" }) {
				plain++
			}
		}
		return seen, kept == 1 && plain == 2
	})
	f.setProfile(`{"spec":{"node":{"taints":null}}}`)
	f.scale(1)
	f.awaitRunning(1)
}
