package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/controller/node"
	"github.com/macfleet/macfleet/internal/controller/nodecsr"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
	"github.com/macfleet/macfleet/sandbox/cluster"
)

// identityStage is a control plane with core, our CRDs, the policies that ship, and
// the controllers that decide who is which Node.
type identityStage struct {
	*testing.T
	admin   client.Client
	cluster *cluster.Cluster
	scheme  *runtime.Scheme
}

// on is the same stage for a subtest.
func (s *identityStage) on(t *testing.T) *identityStage {
	sub := *s
	sub.T = t
	return &sub
}

func (s *identityStage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func newIdentityStage(t *testing.T) *identityStage {
	t.Helper()
	s := &identityStage{T: t, scheme: runtime.NewScheme()}
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme} {
		s.must(add(s.scheme))
	}
	binaries, err := cluster.Build(t.Context(), cluster.BuildOptions{})
	s.must(err)
	dir, err := os.MkdirTemp("", "identity") // short: sockets live in it
	s.must(err)
	s.cluster, err = cluster.Start(t.Context(), cluster.Options{Binaries: binaries, Dir: dir})
	s.must(err)
	t.Cleanup(func() {
		if err := errors.Join(s.cluster.Stop(context.Background()), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	config := s.cluster.Config()
	config.QPS = -1
	s.admin = s.with(config)
	s.install(filepath.Join("..", "..", "sandbox", "world", "rendered", "crds.yaml"), func(*unstructured.Unstructured) bool { return true })
	s.install(filepath.Join("..", "..", "sandbox", "world", "rendered", "chart.yaml"), func(o *unstructured.Unstructured) bool {
		return strings.HasPrefix(o.GetName(), "macfleet-mac-node") || o.GetName() == "macfleet-node-bootstrapper"
	})
	s.run(config)
	s.furnish()
	return s
}

func (s *identityStage) with(config *rest.Config) client.Client {
	s.Helper()
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: s.scheme})
	s.must(err)
	return c
}

// install applies the objects of a file that are wanted, while the API server learns
// their kinds.
func (s *identityStage) install(file string, wanted func(*unstructured.Unstructured) bool) {
	s.Helper()
	text, err := os.ReadFile(file)
	s.must(err)
	decoder, installed := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096), 0
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			s.Fatal(err)
		}
		if o.Object == nil || !wanted(o) {
			continue
		}
		s.must(s.admin.Create(s.Context(), o))
		installed++
	}
	if installed < 5 {
		s.Fatalf("only %d objects of %s were installed", installed, file)
	}
}

// run starts the controllers, as the manager does.
func (s *identityStage) run(config *rest.Config) {
	s.Helper()
	s.await("our kinds are served", func() bool {
		return s.admin.List(s.Context(), &infrav1.ScalewayAppleSiliconMachineList{}) == nil && s.admin.List(s.Context(), &infrav1.ScalewayAppleSiliconHostList{}) == nil
	})
	ctrl.SetLogger(logr.Discard())
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: s.scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	s.must(err)
	s.must((&nodecsr.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()}).SetupWithManager(mgr))
	s.must((&node.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{}}).SetupWithManager(mgr))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	s.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
}

// furnish makes the namespaces, and the one Cluster that all Macs are of.
func (s *identityStage) furnish() {
	s.Helper()
	for _, name := range []string{"fleet", "elsewhere", "elsewhere-too"} {
		s.must(s.admin.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	s.must(s.admin.Create(s.Context(), &infrav1.ScalewayAppleSiliconCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "macs", Labels: map[string]string{clusterv1.ClusterNameLabel: "macs"}},
		Spec:       infrav1.ScalewayAppleSiliconClusterSpec{Zones: []string{"fr-par-1"}},
	}))
	s.must(s.admin.Create(s.Context(), &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "macs"},
		Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "ScalewayAppleSiliconCluster", Name: "macs"},
		},
	}))
	// The policies hold once the API server has compiled them, a moment after they are there.
	probe := s.asNode("probe")
	s.await("the policies hold", func() bool {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: map[string]string{"kubernetes.io/os": "darwin"}}}
		err := probe.Create(s.Context(), n, client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "macfleet-mac-nodes")
	})
	held := s.claim("fleet", "held")
	s.await("the policy of claims holds", func() bool {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: map[string]string{"kubernetes.io/os": "darwin", "kubernetes.io/arch": "arm64"}}}
		n.Spec.ProviderID = held.providerID()
		err := probe.Create(s.Context(), n, client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "macfleet-mac-node-claims")
	})
}

// asNode has a node's identity without a certificate.
func (s *identityStage) asNode(name string) client.Client {
	s.Helper()
	config := s.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + name, Groups: []string{"system:nodes", "system:authenticated"}}
	return s.with(config)
}

// bearer logs in with a bootstrap token.
func (s *identityStage) bearer(token workload.Token) client.Client {
	s.Helper()
	config := rest.AnonymousClientConfig(s.cluster.Config())
	config.BearerToken = token.Reveal()
	return s.with(config)
}

// claim makes a Machine that holds a Mac of its own.
func (s *identityStage) claim(namespace, name string) fleetMac {
	s.Helper()
	id := uuid.NewString()
	h := &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: host.ObjectName("fr-par-1", id)}}
	h.Spec.Zone, h.Spec.ServerID = "fr-par-1", id
	host.Claim(h, infrav1.ClaimReference{Cluster: "macs", Namespace: namespace, Name: name, Token: uuid.NewString()}, time.Now())
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	m.Spec.HostRef = &infrav1.HostReference{Name: h.Name, ClaimToken: h.Spec.ClaimRef.Token}
	s.must(s.admin.Create(s.Context(), m))
	s.must(s.admin.Create(s.Context(), h))
	return fleetMac{h, m}
}

func (s *identityStage) patchHost(mac fleetMac, change func(*infrav1.ScalewayAppleSiliconHost)) {
	s.Helper()
	s.must(s.admin.Get(s.Context(), client.ObjectKeyFromObject(mac.host), mac.host))
	change(mac.host)
	s.must(s.admin.Update(s.Context(), mac.host))
}

// bindToken makes the token that a Mac joins with, as the machine controller does.
func (s *identityStage) bindToken(mac fleetMac) workload.Token {
	s.Helper()
	token, err := workload.NewToken(time.Now())
	s.must(err)
	s.patchHost(mac, func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Record.Bootstrap.TokenID = token.ID })
	s.must(workload.CreateToken(s.Context(), s.admin, token, "test"))
	bearer := s.bearer(token)
	s.await("the API server knows the token", func() bool {
		return bearer.List(s.Context(), &certificatesv1.CertificateSigningRequestList{}) == nil
	})
	return token
}

// release ends a Machine, as the machine controller does: the Host finishes alone.
func (s *identityStage) release(mac fleetMac) {
	s.Helper()
	s.patchHost(mac, func(h *infrav1.ScalewayAppleSiliconHost) {
		h.Spec.Release = &infrav1.Release{Token: h.Spec.ClaimRef.Token, Policy: infrav1.Recycle, PoolPrefix: "tuist-pool-", RequestedAt: metav1.NowMicro()}
	})
	s.must(s.admin.Delete(s.Context(), mac.machine))
}

// seen waits until the controllers have surely looked at all there was: at a request
// and at a Node that came later.
func (s *identityStage) seen() {
	s.Helper()
	mac := s.claim("fleet", "seen-"+uuid.NewString()[:8])
	s.awaitApproved(s.ask(s.bearer(s.bindToken(mac)), mac.machine.Name, ptr.To[int32](600)))
	ghost := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ghost-" + uuid.NewString()[:8]}, Spec: corev1.NodeSpec{ProviderID: host.ProviderID("fr-par-1", uuid.NewString())}}
	s.must(s.admin.Create(s.Context(), ghost))
	s.await("a later Node is looked at", func() bool { return s.nodeGone(ghost.Name) })
}

// awaitEvent waits for an Event on a Machine.
func (s *identityStage) awaitEvent(m *infrav1.ScalewayAppleSiliconMachine, reason, says string) {
	s.Helper()
	s.await("the event "+reason+" on "+m.Name+" that says "+says, func() bool {
		list := &eventsv1.EventList{}
		if s.admin.List(s.Context(), list, client.InNamespace(m.Namespace)) != nil {
			return false
		}
		for _, e := range list.Items {
			if e.Regarding.UID == m.UID && e.Reason == reason && strings.Contains(e.Note, says) {
				return true
			}
		}
		return false
	})
}
