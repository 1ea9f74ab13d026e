package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
	"github.com/macfleet/macfleet/test/agent/stage"
)

// aDay is the longest life of a Mac's certificate; the signer counts from its own
// clock, and may begin some minutes earlier.
const aDay = 24 * time.Hour

// fleetMac is a Machine with the Mac it holds.
type fleetMac struct {
	host    *infrav1.ScalewayAppleSiliconHost
	machine *infrav1.ScalewayAppleSiliconMachine
}

func (m fleetMac) providerID() string {
	return host.ProviderID(m.host.Spec.Zone, m.host.Spec.ServerID)
}

// thief has what a Mac had: a key of its own choice, and the certificate for it.
type thief struct {
	client client.Client
	leaf   *x509.Certificate
}

// TestIdentity plays who gets which node's certificate, and what it is worth, with
// the controllers and the policies that ship, on a real API server under Node and
// RBAC authorization with NodeRestriction.
func TestIdentity(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real control plane")
	}
	s := newIdentityStage(t)
	t.Run("a stolen key", func(t *testing.T) { stolenKey(s.on(t)) })
	t.Run("a Machine named like a control-plane node", func(t *testing.T) { namedLikeAControlPlane(s.on(t)) })
	t.Run("a Secret with the token of another Machine", func(t *testing.T) { foreignToken(s.on(t)) })
	t.Run("namesakes", func(t *testing.T) { namesakes(s.on(t)) })
	t.Run("certificates for longer", func(t *testing.T) { tooLong(s.on(t)) })
	t.Run("a Mac that was handed over", func(t *testing.T) { handedOver(s.on(t)) })
	t.Run("other nodes", func(t *testing.T) { otherNodes(s.on(t)) })
	t.Run("disguises", func(t *testing.T) { disguises(s.on(t)) })
}

// stolenKey: a Mac joins and works; then its Machine is deleted, and whoever has the
// key, the certificate and the token tries everything they are good for.
func stolenKey(s *identityStage) {
	mac := s.claim("fleet", "macfleet-builders-a")
	token := s.bindToken(mac)
	stolen := s.join(mac.machine.Name, token)
	if end := time.Until(stolen.leaf.NotAfter); end > aDay {
		s.Errorf("the certificate lives %s", end)
	}
	s.must(stolen.client.Create(s.Context(), macNode(mac)))
	renewed := s.ask(stolen.client, mac.machine.Name, ptr.To[int32](86400))
	s.awaitApproved(renewed)

	s.release(mac)
	s.await("its Node is gone", func() bool { return s.nodeGone(mac.machine.Name) })

	// The same Node, and the Mac's name without anything else.
	s.refusedOnceKnown(stolen.client, macNode(mac), "is not claimed for a Machine of this name, or it is released")
	s.refused(stolen.client.Create(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: mac.machine.Name}}), "is a Mac's")
	linux := macNode(mac)
	linux.Spec.ProviderID, linux.Labels = "", map[string]string{"kubernetes.io/os": "linux"}
	s.refused(stolen.client.Create(s.Context(), linux), "is a Mac's")
	// Another Mac, of a live Machine, and one that does not exist.
	other := s.claim("fleet", "macfleet-builders-b")
	s.refusedOnceKnown(stolen.client, macNode(mac, as(other.providerID())), "is not claimed for a Machine of this name")
	s.must(stolen.client.Create(s.Context(), macNode(mac, as("scw-applesilicon://fr-par-1/99999999-9999-4999-8999-999999999999"))))
	s.await("the Node of a Mac that does not exist is gone", func() bool { return s.nodeGone(mac.machine.Name) })

	// Renewals, and certificates with the token that it had.
	late := s.ask(stolen.client, mac.machine.Name, ptr.To[int32](86400))
	again := s.ask(s.bearer(token), mac.machine.Name, ptr.To[int32](86400))
	s.seen()
	s.pending(late)
	s.pending(again)
	s.must(workload.DeleteToken(s.Context(), s.admin, token.ID)) // as the machine controller does with the Machine
	s.await("the token is no login any more", func() bool {
		return s.bearer(token).List(s.Context(), &certificatesv1.CertificateSigningRequestList{}) != nil
	})

	// With kubeadm's binding the renewal is approved by others. It makes no Node.
	s.must(s.admin.Create(s.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:node-autoapprove-certificate-rotation"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:nodes"}},
	}))
	s.await("the binding counts", func() bool { return s.mayRenew(mac.machine.Name) })
	key, byKubeadm := s.request(mac.machine.Name, nil)
	s.must(stolen.client.Create(s.Context(), byKubeadm))
	forYears := s.certified(key, byKubeadm)
	if time.Until(forYears.leaf.NotAfter) < 2*aDay {
		s.Errorf("kube-controller-manager's certificate ends at %s: the book says otherwise", forYears.leaf.NotAfter)
	}
	s.must(s.admin.Delete(s.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:node-autoapprove-certificate-rotation"}}))
	s.refused(forYears.client.Create(s.Context(), macNode(mac)), "is not claimed for a Machine of this name")
	s.refused(forYears.client.Create(s.Context(), linux), "is a Mac's")
	var secrets corev1.SecretList
	if err := forYears.client.List(s.Context(), &secrets); err == nil {
		s.Error("a node without a Node reads Secrets")
	}
}

// namedLikeAControlPlane: a fleet author names a Machine as the control plane's node.
func namedLikeAControlPlane(s *identityStage) {
	plane := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "control-plane-1", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}}
	s.must(s.admin.Create(s.Context(), plane))
	mac := s.claim("fleet", plane.Name)
	csr := s.ask(s.bearer(s.bindToken(mac)), plane.Name, ptr.To[int32](86400))
	s.awaitEvent(mac.machine, "CertificateRefused", "control plane")
	s.pending(csr)
	s.release(mac)
	s.seen()
	if s.nodeGone(plane.Name) {
		s.Error("the control plane's Node was deleted")
	}
}

// foreignToken: the Secret of a Machine names a token that was made for another Mac.
func foreignToken(s *identityStage) {
	victim, author := s.claim("fleet", "victim"), s.claim("fleet", "author")
	token := s.bindToken(author)
	s.must(s.admin.Create(s.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: host.BootstrapSecretName(victim.machine.Name)},
		Data:       map[string][]byte{host.KeyTokenID: []byte(token.ID)},
	}))
	csr := s.ask(s.bearer(token), victim.machine.Name, ptr.To[int32](86400))
	s.awaitEvent(author.machine, "CertificateRefused", "the token was made for Machine fleet/author")
	s.pending(csr)
}

// namesakes: Machines of one name in two namespaces, and a claim of that name whose
// Machine cannot be found: the Mac that is the Node goes on.
func namesakes(s *identityStage) {
	mac := s.claim("fleet", "twin")
	s.claim("elsewhere", "twin")
	gone := s.claim("elsewhere-too", "twin")
	s.must(s.admin.Delete(s.Context(), gone.machine))
	own := s.join("twin", s.bindToken(mac))
	s.must(own.client.Create(s.Context(), macNode(mac)))
	s.awaitApproved(s.ask(own.client, "twin", ptr.To[int32](86400)))
}

func tooLong(s *identityStage) {
	mac := s.claim("fleet", "long")
	bearer := s.bearer(s.bindToken(mac))
	year := s.ask(bearer, "long", ptr.To[int32](365*86400))
	s.awaitEvent(mac.machine, "CertificateRefused", "spec.expirationSeconds is 31536000: a Mac's certificate lives 86400 seconds at most")
	unsaid := s.ask(bearer, "long", nil)
	s.seen()
	s.pending(year)
	s.pending(unsaid)
}

// handedOver: the Machine went to another management cluster, the Node is here.
func handedOver(s *identityStage) {
	mac := s.claim("fleet", "moved")
	own := s.join("moved", s.bindToken(mac))
	s.must(own.client.Create(s.Context(), macNode(mac)))
	s.patchHost(mac, func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Record.HandedOverAt = ptr.To(metav1.NowMicro()) })
	s.must(s.admin.Delete(s.Context(), mac.machine))
	s.awaitApproved(s.ask(own.client, "moved", ptr.To[int32](86400)))
	s.seen()
	if s.nodeGone("moved") {
		s.Error("the Node of a Mac that was handed over was deleted")
	}
}

// otherNodes: nothing of this is felt by linux nodes and the control plane, and
// nothing refuses what a Mac's agent does.
func otherNodes(s *identityStage) {
	linux := s.asNode("linux-1")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux-1", Labels: map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}}
	s.must(linux.Create(s.Context(), n))
	s.must(patchStatus(s, linux, n, func() { n.Status.NodeInfo.KubeletVersion = "v1.36.4" }))
	plane := s.asNode("plane-2")
	s.must(plane.Create(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "plane-2"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}}}))

	mac := s.claim("fleet", "macfleet-builders-c")
	agent := s.asNode(mac.machine.Name)
	own := macNode(mac)
	s.must(agent.Create(s.Context(), own))
	s.must(patchStatus(s, agent, own, func() {
		own.Status.NodeInfo.KubeletVersion = "v1.36.4-macfleet"
		own.Labels["macfleet.dev/agent-version"] = "v0.1.0"
		own.Annotations = map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
	}))
	s.seen()
	for _, name := range []string{"linux-1", "plane-2", mac.machine.Name} {
		if s.nodeGone(name) {
			s.Errorf("Node %s was deleted", name)
		}
	}
}

// disguises: what a node may not make of its Node.
func disguises(s *identityStage) {
	for what, c := range map[string]struct {
		change func(*corev1.Node)
		says   string
	}{
		"no providerID":   {as(""), "is a Mac's"},
		"no server":       {as("scw-applesilicon://fr-par-1/"), "is a Mac's"},
		"another vendor":  {as("aws:///eu/i-1"), "is a Mac's"},
		"no architecture": {func(n *corev1.Node) { delete(n.Labels, "kubernetes.io/arch") }, "is a Mac's"},
		"linux":           {func(n *corev1.Node) { n.Labels["kubernetes.io/os"] = "linux" }, "is a Mac's"},
		"darwin alone":    {func(n *corev1.Node) { as("")(n); n.Labels = map[string]string{"kubernetes.io/os": "darwin"} }, "is a Mac's"},
		"a fleet alone":   {func(n *corev1.Node) { as("")(n); n.Labels = map[string]string{"tuist.dev/fleet": "x"} }, "is a Mac's"},
		"the taint alone": {func(n *corev1.Node) {
			as("")(n)
			n.Labels = nil
			n.Spec.Taints = []corev1.Taint{{Key: "tuist.dev/macos", Effect: "NoSchedule"}}
		}, "is a Mac's"},
		"Cluster API's own": {func(n *corev1.Node) { n.Annotations = map[string]string{"cluster.x-k8s.io/cluster-name": "moved"} }, "which Machine it is of"},
	} {
		s.Run(what, func(t *testing.T) {
			s := s.on(t)
			mac := s.claim("fleet", "disguise-"+strings.NewReplacer(" ", "-", "'", "").Replace(strings.ToLower(what)))
			s.refused(s.asNode(mac.machine.Name).Create(t.Context(), macNode(mac, c.change)), c.says)
		})
	}
	mac := s.claim("fleet", "macfleet-builders-d")
	agent := s.asNode(mac.machine.Name)
	s.must(agent.Create(s.Context(), macNode(mac)))
	for what, c := range map[string]struct {
		change func(*corev1.Node)
		says   string
	}{
		"its providerID":         {as(""), "providerID"},
		"its system":             {func(n *corev1.Node) { n.Labels["kubernetes.io/os"] = "linux" }, "is a Mac's"},
		"Cluster API's own":      {func(n *corev1.Node) { n.Annotations = map[string]string{"cluster.x-k8s.io/machine": "x"} }, "which Machine it is of"},
		"its fleet":              {func(n *corev1.Node) { n.Labels["tuist.dev/fleet"] = "x" }, "which Pods come to it"},
		"its name's label":       {func(n *corev1.Node) { n.Labels["kubernetes.io/hostname"] = "x" }, "which Pods come to it"},
		"another fleet's label":  {func(n *corev1.Node) { n.Labels["team"] = "ios" }, "which Pods come to it"},
		"a label that it has":    {func(n *corev1.Node) { delete(n.Labels, "tuist.dev/fleet") }, "which Pods come to it"},
		"another Mac's identity": {as("scw-applesilicon://fr-par-1/99999999-9999-4999-8999-999999999999"), "providerID"},
	} {
		s.Run("changes "+what, func(t *testing.T) {
			s := s.on(t)
			s.refused(s.edit(agent, mac.machine.Name, c.change), c.says)
		})
	}
	s.Run("changes a label with its status", func(t *testing.T) {
		s := s.on(t)
		n := &corev1.Node{}
		s.must(s.admin.Get(s.Context(), client.ObjectKey{Name: mac.machine.Name}, n))
		s.refused(patchStatus(s, agent, n, func() { n.Labels["team"] = "ios" }), "which Pods come to it")
	})
	// A linux node that makes itself the Mac of a Host.
	linux := s.asNode("linux-2")
	s.must(linux.Create(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux-2", Labels: map[string]string{"kubernetes.io/os": "linux"}}}))
	s.refused(s.edit(linux, "linux-2", as("scw-applesilicon://fr-par-1/99999999-9999-4999-8999-999999999999")), "is a Mac's")
	becomes := func(n *corev1.Node) { n.Labels, n.Spec.ProviderID = macNode(mac).Labels, mac.providerID() }
	s.await("the claim to count", func() bool { return s.edit(linux, "linux-2", becomes, client.DryRunAll) != nil })
	s.refused(s.edit(linux, "linux-2", becomes), "is not claimed for a Machine of this name")
}

// edit changes a Node as whoever; others, as the node controller, write it meanwhile.
func (s *identityStage) edit(with client.Client, name string, change func(*corev1.Node), options ...client.PatchOption) error {
	s.Helper()
	n := &corev1.Node{}
	s.must(s.admin.Get(s.Context(), client.ObjectKey{Name: name}, n))
	before := n.DeepCopy()
	change(n)
	return with.Patch(s.Context(), n, client.MergeFrom(before), options...)
}

// patchStatus is how agents say what they are.
func patchStatus(s *identityStage, with client.Client, n *corev1.Node, change func()) error {
	before := n.DeepCopy()
	change()
	return with.Status().Patch(s.Context(), n, client.MergeFrom(before))
}

// as is a Node with another providerID.
func as(providerID string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.ProviderID = providerID }
}

// macNode is what the agent makes.
func macNode(mac fleetMac, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: mac.machine.Name, Labels: map[string]string{
			"kubernetes.io/os": "darwin", "kubernetes.io/arch": "arm64", "kubernetes.io/hostname": mac.machine.Name, "tuist.dev/fleet": "builders",
		}},
		Spec: corev1.NodeSpec{ProviderID: mac.providerID()},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

// request makes a key, and a request for its certificate.
func (s *identityStage) request(name string, seconds *int32) (*ecdsa.PrivateKey, *certificatesv1.CertificateSigningRequest) {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
	}, key)
	s.must(err)
	return key, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, ExpirationSeconds: seconds,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
}

// ask puts a request with whatever credentials.
func (s *identityStage) ask(with client.Client, name string, seconds *int32) *certificatesv1.CertificateSigningRequest {
	s.Helper()
	_, csr := s.request(name, seconds)
	s.must(with.Create(s.Context(), csr))
	return csr
}

// join gets a first certificate with a token.
func (s *identityStage) join(name string, token workload.Token) thief {
	s.Helper()
	key, csr := s.request(name, ptr.To[int32](86400))
	s.must(s.bearer(token).Create(s.Context(), csr))
	return s.certified(key, csr)
}

// certified waits for the certificate of a key, and logs in with both.
func (s *identityStage) certified(key *ecdsa.PrivateKey, csr *certificatesv1.CertificateSigningRequest) thief {
	s.Helper()
	s.await("a certificate", func() bool {
		return s.admin.Get(s.Context(), client.ObjectKeyFromObject(csr), csr) == nil && len(csr.Status.Certificate) > 0
	})
	block, _ := pem.Decode(csr.Status.Certificate)
	leaf, err := x509.ParseCertificate(block.Bytes)
	s.must(err)
	der, err := x509.MarshalECPrivateKey(key)
	s.must(err)
	config := rest.AnonymousClientConfig(s.cluster.Config())
	config.CertData, config.KeyData = csr.Status.Certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return thief{s.with(config), leaf}
}

// mayRenew reports whether kube-controller-manager approves what this node asks for.
func (s *identityStage) mayRenew(name string) bool {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:node:" + name, Groups: []string{"system:nodes", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Subresource: "selfnodeclient", Verb: "create"},
	}}
	return s.admin.Create(s.Context(), review) == nil && review.Status.Allowed
}

func (s *identityStage) approved(csr *certificatesv1.CertificateSigningRequest) bool {
	if csr.Name == "" || s.admin.Get(s.Context(), client.ObjectKeyFromObject(csr), csr) != nil {
		return false
	}
	return len(csr.Status.Conditions) == 1 && csr.Status.Conditions[0].Type == certificatesv1.CertificateApproved
}

func (s *identityStage) awaitApproved(csr *certificatesv1.CertificateSigningRequest) {
	s.Helper()
	s.await("approval", func() bool { return s.approved(csr) })
}

func (s *identityStage) pending(csr *certificatesv1.CertificateSigningRequest) {
	s.Helper()
	s.must(s.admin.Get(s.Context(), client.ObjectKeyFromObject(csr), csr))
	if len(csr.Status.Conditions) != 0 || len(csr.Status.Certificate) != 0 {
		s.Errorf("%s was answered: %v", csr.Name, csr.Status.Conditions)
	}
}

// refused: by a policy, with these words.
func (s *identityStage) refused(err error, says string) {
	s.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		s.Errorf("error %v, want one that says %q", err, says)
	}
}

// refusedOnceKnown: by a policy that compares with Hosts, which the API server learns
// from a watch: a claim and its end count a moment after they are written.
func (s *identityStage) refusedOnceKnown(with client.Client, n *corev1.Node, says string) {
	s.Helper()
	s.await("a refusal that says "+says, func() bool {
		err := with.Create(s.Context(), n.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), says)
	})
	s.refused(with.Create(s.Context(), n), says)
}

func (s *identityStage) nodeGone(name string) bool {
	return stage.IsGone(s.admin.Get(s.Context(), client.ObjectKey{Name: name}, &corev1.Node{}))
}

func (s *identityStage) await(what string, done func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	s.must(stage.Await(ctx, what, done))
}
