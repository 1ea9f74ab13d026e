// Package nodecsr approves the certificates that Macs ask for to be Nodes: those
// they are clients with, and those they serve the kubelet API with. No others: a
// request that it does not recognise is left Pending, as it may be somebody else's
// to decide. It never denies.
//
// Who may be which Node is read from Hosts, which the manager alone writes: the
// token that a claim's Mac joins with, and the claim itself. Secrets, which people
// of a fleet write, entitle to nothing.
package nodecsr

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
)

const (
	nodeUserPrefix = "system:node:"
	nodeGroup      = "system:nodes"

	// maxSeconds is the longest life of a certificate, 24 hours: nothing takes back
	// a certificate that was stolen, only its end does.
	maxSeconds = 24 * 60 * 60

	// lookAgain is when a request is looked at again that names what the vendor does
	// not show yet.
	lookAgain = time.Minute
	// nodeDelay is when a request is looked at again whose Node does not exist yet.
	nodeDelay = 5 * time.Second
)

// nodeRequest is what a request asks for and who asks.
type nodeRequest struct {
	// Node is the name in the certificate's subject.
	Node string
	// TokenID the requester logged in with; empty where it is the node itself.
	TokenID string
	// Serving: the kubelet API is to be served with it. Names and Addresses are what
	// it would prove, one at least.
	Serving   bool
	Names     []string
	Addresses []netip.Addr
	// apiServer is the API server's name as its clients know it; empty: none is known. The
	// one who asks does not say that.
	apiServer string
	// Seconds is spec.expirationSeconds; nil: as long as the signer likes.
	Seconds *int32
}

// ours reports that a signer's requests are looked at.
func ours(signer string) bool {
	return signer == certificatesv1.KubeAPIServerClientKubeletSignerName || signer == certificatesv1.KubeletServingSignerName
}

// read checks what the request itself shows: the signer, the subject, the usages,
// the requester. The error says what is not as a Mac asks it.
func read(csr *certificatesv1.CertificateSigningRequest) (nodeRequest, error) {
	if !ours(csr.Spec.SignerName) {
		return nodeRequest{}, fmt.Errorf("the signer %s is not ours to decide", csr.Spec.SignerName)
	}
	parsed, err := parse(csr.Spec.Request)
	if err != nil {
		return nodeRequest{}, err
	}
	node, err := subjectNode(parsed)
	if err != nil {
		return nodeRequest{}, err
	}
	ask := nodeRequest{Node: node, Seconds: csr.Spec.ExpirationSeconds}
	if csr.Spec.SignerName == certificatesv1.KubeletServingSignerName {
		return readServing(csr, parsed, ask)
	}
	return readClient(csr, parsed, ask)
}

// readClient is read as far as only client certificates go.
func readClient(csr *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest, ask nodeRequest) (nodeRequest, error) {
	if len(parsed.DNSNames)+len(parsed.IPAddresses)+len(parsed.EmailAddresses)+len(parsed.URIs) != 0 {
		return nodeRequest{}, errors.New("the request names alternative subjects")
	}
	if !usages(csr.Spec.Usages, certificatesv1.UsageClientAuth) {
		return nodeRequest{}, errors.New("the usages are not those of a node's client certificate")
	}
	if id, bootstrap := strings.CutPrefix(csr.Spec.Username, workload.BootstrapUserPrefix); bootstrap {
		if id == "" || !slices.Contains(csr.Spec.Groups, workload.JoinGroup) {
			return nodeRequest{}, fmt.Errorf("the requester holds no token of group %s", workload.JoinGroup)
		}
		ask.TokenID = id
		return ask, nil
	}
	if !byNode(csr, ask.Node) {
		return nodeRequest{}, errors.New("the requester is neither a bootstrap token of ours nor the node itself")
	}
	return ask, nil
}

// byNode reports that the node itself asks.
func byNode(csr *certificatesv1.CertificateSigningRequest, node string) bool {
	return csr.Spec.Username == nodeUserPrefix+node && slices.Contains(csr.Spec.Groups, nodeGroup)
}

// find returns the Host that a request is about: for a first certificate the one
// whose record bears the token, for a renewal the one that the Node is. A renewal
// of a Node that is no claimed Mac, but bears the name of one claim, is about that
// claim, and will be refused. Nil: it is about none.
func find(ask nodeRequest, node *corev1.Node, hosts []host.Host) *host.Host {
	var named []*host.Host
	for i := range hosts {
		h := &hosts[i]
		if matches(ask, node, h) {
			return h
		}
		if claim := h.Spec.ClaimRef; ask.TokenID == "" && claim != nil && claim.Name == ask.Node {
			named = append(named, h)
		}
	}
	if len(named) == 1 {
		return named[0]
	}
	return nil
}

// matches reports a Host that a request is about, whatever other Hosts there are.
func matches(ask nodeRequest, node *corev1.Node, h *host.Host) bool {
	if ask.TokenID != "" {
		return h.Spec.Record.Bootstrap.TokenID == ask.TokenID
	}
	claim := h.Spec.ClaimRef
	return claim != nil && claim.Name == ask.Node && node != nil && host.NodeOfHost(node, h)
}

// refused is why a request about a Host is not approved. The zero value: it is.
type refused struct {
	// Check that it did not pass: one Event is kept of each.
	Check string
	Why   string
	// Again is when to look once more: what it lacks may come without the request
	// changing. 0: not.
	Again time.Duration
	// Quietly: it is expected for now, and nobody needs to be told.
	Quietly bool
}

// The checks of refusal.
const (
	checkClaim    = "CheckClaim"
	checkLifetime = "CheckLifetime"
	checkNode     = "CheckNode"
	checkNames    = "CheckNames"
)

// refusal looks for what is in the way of a request about a Host. The Machine is
// that of the Host's claim, nil when there is none; the Node is the one that the
// certificate would be for, nil when there is none. Both were read uncached.
func refusal(ask nodeRequest, h *host.Host, m *infrav1.ScalewayAppleSiliconMachine, node *corev1.Node) refused {
	if why := claimRefusal(ask, h, m); why != "" {
		return refused{Check: checkClaim, Why: why}
	}
	if why := lifetimeRefusal(ask); why != "" {
		return refused{Check: checkLifetime, Why: why}
	}
	if why := namesRefusal(ask, h); why != "" {
		return refused{Check: checkNames, Why: why, Again: lookAgain}
	}
	if ask.Serving && node == nil {
		// It asks as soon as it has an identity, and makes its Node with the same one.
		return refused{Check: checkNode, Why: fmt.Sprintf("Node %s does not exist yet", ask.Node), Again: nodeDelay, Quietly: true}
	}
	if why := nodeRefusal(ask, h, node); why != "" {
		return refused{Check: checkNode, Why: why, Again: lookAgainFor(ask)}
	}
	return refused{}
}

// lookAgainFor is when a request of whom the Node is not yet known is looked at again. Who asks
// for a client certificate makes a new request.
func lookAgainFor(ask nodeRequest) time.Duration {
	if ask.Serving {
		return lookAgain
	}
	return 0
}

// claimRefusal is refusal as far as the claim goes. A Mac that was handed over to
// another management cluster is renewed here as long as its Node is here: its
// Machine is there.
func claimRefusal(ask nodeRequest, h *host.Host, m *infrav1.ScalewayAppleSiliconMachine) string {
	claim, moved := h.Spec.ClaimRef, h.Spec.Record.HandedOverAt != nil
	switch {
	case claim == nil:
		return fmt.Sprintf("host %s has no Machine any more", h.Name)
	case claim.Name != ask.Node:
		return fmt.Sprintf("the token was made for Machine %s/%s, and a certificate for Node %s is asked for", claim.Namespace, claim.Name, ask.Node)
	case h.Spec.Release != nil:
		return fmt.Sprintf("host %s is released", h.Name)
	case moved && ask.TokenID != "":
		return fmt.Sprintf("host %s was handed over to another management cluster, and joins nothing here", h.Name)
	case moved:
		return ""
	case m == nil:
		return fmt.Sprintf("Machine %s/%s does not exist", claim.Namespace, claim.Name)
	case !m.DeletionTimestamp.IsZero():
		return fmt.Sprintf("Machine %s/%s is being deleted", m.Namespace, m.Name)
	case !holds(h, m):
		return fmt.Sprintf("Machine %s/%s does not hold the claim of host %s", m.Namespace, m.Name, h.Name)
	}
	return ""
}

// lifetimeRefusal is refusal as far as the certificate's end goes.
func lifetimeRefusal(ask nodeRequest) string {
	switch {
	case ask.Seconds == nil:
		return fmt.Sprintf("spec.expirationSeconds is not set: a Mac's certificate lives %d seconds at most, and without the field the signer gives a year", maxSeconds)
	case *ask.Seconds > maxSeconds:
		return fmt.Sprintf("spec.expirationSeconds is %d: a Mac's certificate lives %d seconds at most", *ask.Seconds, maxSeconds)
	}
	return ""
}

// nodeRefusal is refusal as far as the Node of the name goes.
func nodeRefusal(ask nodeRequest, h *host.Host, node *corev1.Node) string {
	switch {
	case node == nil && ask.TokenID == "":
		return fmt.Sprintf("Node %s does not exist: a Mac whose Node was deleted joins again with a new token", ask.Node)
	case node == nil:
		return ""
	case host.ControlPlaneNode(node):
		return fmt.Sprintf("Node %s is of the control plane: name the Machine otherwise", node.Name)
	case node.Spec.ProviderID == "":
		return fmt.Sprintf("Node %s exists, has no providerID, and so may be another machine's: rename the Machine, or delete the Node if it is this Mac's", node.Name)
	case !host.NodeOfHost(node, h):
		return fmt.Sprintf("Node %s exists and is %s, and this Mac is %s", node.Name, node.Spec.ProviderID, host.ProviderID(h.Spec.Zone, h.Spec.ServerID))
	}
	return ""
}

// holds reports that the Machine is the one that the host's claim names. One that was
// created again from a backup is: its Mac must not lose its Node meanwhile.
func holds(h *host.Host, m *infrav1.ScalewayAppleSiliconMachine) bool {
	ref := m.Spec.HostRef
	return ref != nil && ref.Name == h.Name && host.MeansClaim(h, m)
}

// parse returns the one certificate request that there must be.
func parse(request []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) != 0 {
		return nil, errors.New("the request is not one PEM certificate request")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the request cannot be parsed: %w", err)
	}
	if err := parsed.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the request is not signed by its own key: %w", err)
	}
	return parsed, nil
}

// subjectNode returns the node in a subject that says nothing else.
func subjectNode(parsed *x509.CertificateRequest) (string, error) {
	node, is := strings.CutPrefix(parsed.Subject.CommonName, nodeUserPrefix)
	switch {
	case !is || node == "":
		return "", errors.New("the common name is not a node's")
	case !slices.Equal(parsed.Subject.Organization, []string{nodeGroup}):
		return "", fmt.Errorf("the organisation is not exactly %s", nodeGroup)
	case len(parsed.Subject.Names) != 2:
		return "", errors.New("the subject holds more than a common name and an organisation")
	}
	return node, nil
}

// usages accepts what kubelets ask for, beside what the certificate is for: with key
// encipherment for RSA keys, without it for others.
func usages(asked []certificatesv1.KeyUsage, use certificatesv1.KeyUsage) bool {
	rest := slices.DeleteFunc(slices.Clone(asked), func(u certificatesv1.KeyUsage) bool {
		return u == certificatesv1.UsageKeyEncipherment
	})
	return len(rest) == 2 && slices.Contains(rest, certificatesv1.UsageDigitalSignature) && slices.Contains(rest, use)
}
