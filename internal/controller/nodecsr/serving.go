package nodecsr

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/macfleet/macfleet/internal/host"
)

// readServing is read as far as only serving certificates go.
func readServing(csr *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest, ask nodeRequest) (nodeRequest, error) {
	switch {
	case !byNode(csr, ask.Node):
		return nodeRequest{}, errors.New("the requester is not the node itself")
	case !usages(csr.Spec.Usages, certificatesv1.UsageServerAuth):
		return nodeRequest{}, errors.New("the usages are not those of a node's serving certificate")
	case len(parsed.EmailAddresses)+len(parsed.URIs) != 0:
		return nodeRequest{}, errors.New("the request names e-mail addresses or URIs")
	case len(parsed.DNSNames)+len(parsed.IPAddresses) == 0:
		return nodeRequest{}, errors.New("the request names neither an address nor a name")
	}
	ask.Serving, ask.Names = true, parsed.DNSNames
	for _, ip := range parsed.IPAddresses {
		address, ok := netip.AddrFromSlice(ip)
		if !ok {
			return nodeRequest{}, fmt.Errorf("%v is no address", ip)
		}
		ask.Addresses = append(ask.Addresses, address.Unmap())
	}
	return ask, nil
}

// ofCluster tells names by which Pods reach Services, the API server first of all: the name of
// a Machine is written by whoever may make one.
func ofCluster(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "kubernetes" || name == "kubernetes.default" || name == "localhost" ||
		strings.Contains(name+".", ".svc.") || strings.HasSuffix(name, ".cluster.local")
}

// namesRefusal is refusal as far as the names of a serving certificate go: the
// Machine's name, and the address that the vendor shows. What the Node says of itself
// is no evidence, as the one who asks writes it.
func namesRefusal(ask nodeRequest, h *host.Host) string {
	own, err := netip.ParseAddr(h.Status.Server.IP)
	known := err == nil
	for _, name := range ask.Names {
		if ofCluster(name) {
			return fmt.Sprintf("it names %.253q, which is a Service's in the cluster: give the Machine another name", name)
		}
		if ask.apiServer != "" && strings.EqualFold(strings.TrimSuffix(name, "."), ask.apiServer) {
			return fmt.Sprintf("it names %.253q, by which the API server is known: give the Machine another name", name)
		}
		if name != ask.Node {
			return fmt.Sprintf("it names %.253q, and the Machine is called %s", name, ask.Node)
		}
	}
	for _, address := range ask.Addresses {
		switch {
		case !known:
			return fmt.Sprintf("it names %s, and the vendor shows no address of host %s", address, h.Name)
		case address != own.Unmap():
			return fmt.Sprintf("it names %s, and the vendor shows %s for host %s", address, own, h.Name)
		}
	}
	return ""
}
