package document

import (
	"crypto/x509"
)

// DefaultKubeletPort is a kubelet's.
const DefaultKubeletPort = 10250

// Kubelet is the HTTPS API that a Mac serves, which kubectl logs, exec and port-forward
// end at.
type Kubelet struct {
	// Port of it. Nil: DefaultKubeletPort. 0: there is none.
	Port *int `json:"port,omitempty"`
	// ClientCA are the authorities that the API's clients prove themselves by, PEM: those
	// of the cluster's API server. A node may not read them for itself. Empty: clients
	// prove themselves by tokens alone.
	ClientCA []byte `json:"clientCA,omitempty"`
}

// ListenPort is the port to serve on; 0: none.
func (k Kubelet) ListenPort() int {
	if k.Port == nil {
		return DefaultKubeletPort
	}
	return *k.Port
}

func (k Kubelet) validate() error {
	if port := k.ListenPort(); port < 0 || port > maxPort {
		return &FieldError{Field: "kubelet.port", Reason: "is not a port"}
	}
	if len(k.ClientCA) > 0 && !x509.NewCertPool().AppendCertsFromPEM(k.ClientCA) {
		return &FieldError{Field: "kubelet.clientCA", Reason: "holds no certificate"}
	}
	return nil
}
