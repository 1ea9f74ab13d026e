// Package nodecsr approves the client certificates that Macs ask for to be
// Nodes, and no others. A request that it does not recognise is left Pending: it
// may be somebody else's to decide. It never denies.
package nodecsr

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/macfleet/macfleet/internal/workload"
)

const (
	nodeUserPrefix = "system:node:"
	nodeGroup      = "system:nodes"
)

// Machine is what is known of a live Machine that a Node may belong to.
type Machine struct {
	Name string
	// TokenID of the bootstrap token that was made for it, if any.
	TokenID string
	// Provisioned: its Mac was converged, so that a Node of its name can be its own.
	Provisioned bool
}

// Ask is what a request asks for and who asks.
type Ask struct {
	// Node is the name in the certificate's subject.
	Node string
	// TokenID the requester logged in with; empty for a renewal.
	TokenID string
}

// Read checks everything that the request itself shows: the signer, the subject,
// the usages, the requester. The error says what is not as a Mac asks it.
func Read(csr *certificatesv1.CertificateSigningRequest) (Ask, error) {
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return Ask{}, fmt.Errorf("the signer %s is not ours to decide", csr.Spec.SignerName)
	}
	node, err := subjectNode(csr.Spec.Request)
	if err != nil {
		return Ask{}, err
	}
	if !clientUsages(csr.Spec.Usages) {
		return Ask{}, errors.New("the usages are not those of a node's client certificate")
	}
	if id, bootstrap := strings.CutPrefix(csr.Spec.Username, workload.BootstrapUserPrefix); bootstrap {
		if id == "" || !slices.Contains(csr.Spec.Groups, workload.JoinGroup) {
			return Ask{}, fmt.Errorf("the requester holds no token of group %s", workload.JoinGroup)
		}
		return Ask{Node: node, TokenID: id}, nil
	}
	if csr.Spec.Username != nodeUserPrefix+node || !slices.Contains(csr.Spec.Groups, nodeGroup) {
		return Ask{}, errors.New("the requester is neither a bootstrap token of ours nor the node itself")
	}
	return Ask{Node: node}, nil
}

// Approves decides about an ask, given the live Machines. A first certificate
// needs the very token that was made for that Machine. A renewal shows only the
// node's name: it needs the one Machine of that name, in whatever namespace, and
// that one must have a Mac. Of two it could be either's.
func Approves(ask Ask, machines []Machine) bool {
	named := slices.DeleteFunc(slices.Clone(machines), func(m Machine) bool { return m.Name != ask.Node })
	if ask.TokenID == "" {
		return len(named) == 1 && named[0].Provisioned
	}
	return slices.ContainsFunc(named, func(m Machine) bool { return m.TokenID == ask.TokenID })
}

// subjectNode returns the node in the subject of a request that names nothing else.
func subjectNode(request []byte) (string, error) {
	block, rest := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) != 0 {
		return "", errors.New("the request is not one PEM certificate request")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("the request cannot be parsed: %w", err)
	}
	if err := parsed.CheckSignature(); err != nil {
		return "", fmt.Errorf("the request is not signed by its own key: %w", err)
	}
	node, is := strings.CutPrefix(parsed.Subject.CommonName, nodeUserPrefix)
	switch {
	case !is || node == "":
		return "", errors.New("the common name is not a node's")
	case !slices.Equal(parsed.Subject.Organization, []string{nodeGroup}):
		return "", fmt.Errorf("the organisation is not exactly %s", nodeGroup)
	case len(parsed.Subject.Names) != 2:
		return "", errors.New("the subject holds more than a common name and an organisation")
	case len(parsed.DNSNames)+len(parsed.IPAddresses)+len(parsed.EmailAddresses)+len(parsed.URIs) != 0:
		return "", errors.New("the request names alternative subjects")
	}
	return node, nil
}

// clientUsages accepts what kubelets ask for: with key encipherment for RSA keys,
// without it for others.
func clientUsages(usages []certificatesv1.KeyUsage) bool {
	rest := slices.DeleteFunc(slices.Clone(usages), func(u certificatesv1.KeyUsage) bool {
		return u == certificatesv1.UsageKeyEncipherment
	})
	return len(rest) == 2 && slices.Contains(rest, certificatesv1.UsageDigitalSignature) && slices.Contains(rest, certificatesv1.UsageClientAuth)
}
