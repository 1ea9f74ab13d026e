package pki

import (
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// serviceIP is the first address of the service range 10.96.0.0/16: that of the Service "kubernetes".
const serviceIP = "10.96.0.1"

// leaf is what one certificate says.
type leaf struct {
	commonName string
	groups     []string
	usage      x509.ExtKeyUsage
	dnsNames   []string
	ips        []net.IP
}

// Bundle is the set of certificates of one control plane, in one folder.
type Bundle struct {
	// Dir is the folder that holds everything.
	Dir string
	// CA is the PEM of the cluster's authority. It signs what the API server serves, the clients it knows, what
	// kubelets ask for, and the webhooks' certificate.
	CA []byte

	ca         *authority
	frontProxy *authority
	now        time.Time
}

// Create prepares dir: authorities and the service account key are kept when they exist, the rest is issued anew.
func Create(dir string, now time.Time) (*Bundle, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the certificate folder: %w", err)
	}
	ca, err := loadOrCreateAuthority(dir, "ca", "kubernetes", now)
	if err != nil {
		return nil, err
	}
	frontProxy, err := loadOrCreateAuthority(dir, "front-proxy-ca", "front-proxy-ca", now)
	if err != nil {
		return nil, err
	}
	if err := loadOrCreateServiceAccountKey(dir); err != nil {
		return nil, err
	}
	b := &Bundle{Dir: dir, CA: ca.pem, ca: ca, frontProxy: frontProxy, now: now}
	return b, b.issueLeaves()
}

// Path is the full path of a file of the bundle.
func (b *Bundle) Path(name string) string { return filepath.Join(b.Dir, name) }

// WebhookDir holds tls.crt and tls.key for webhooks that serve on 127.0.0.1.
func (b *Bundle) WebhookDir() string { return b.Path("webhook") }

func (b *Bundle) issueLeaves() error {
	loopback := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	if err := os.MkdirAll(b.WebhookDir(), 0o700); err != nil {
		return fmt.Errorf("creating the webhook certificate folder: %w", err)
	}
	leaves := []struct {
		signer    *authority
		cert, key string
		leaf      leaf
	}{
		{b.ca, "apiserver.crt", "apiserver.key", leaf{
			commonName: "kube-apiserver", usage: x509.ExtKeyUsageServerAuth,
			dnsNames: []string{
				"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc.cluster.local",
			},
			ips: append([]net.IP{net.ParseIP(serviceIP)}, loopback...),
		}},
		{b.ca, "apiserver-kubelet-client.crt", "apiserver-kubelet-client.key", leaf{
			// No default binding gives anybody nodes/proxy on a kubelet but that of system:masters.
			commonName: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}, usage: x509.ExtKeyUsageClientAuth,
		}},
		{b.frontProxy, "front-proxy-client.crt", "front-proxy-client.key", leaf{
			commonName: "front-proxy-client", usage: x509.ExtKeyUsageClientAuth,
		}},
		{b.ca, "webhook/tls.crt", "webhook/tls.key", leaf{
			commonName: "webhook", usage: x509.ExtKeyUsageServerAuth, dnsNames: []string{"localhost"}, ips: loopback,
		}},
	}
	for _, l := range leaves {
		certPEM, key, err := l.signer.issue(l.leaf, b.now)
		if err != nil {
			return err
		}
		if err := writePair(b.Dir, l.cert, l.key, certPEM, key); err != nil {
			return err
		}
	}
	return nil
}

// WriteKubeconfig issues a client certificate for user in groups and writes a kubeconfig that needs no other file.
func (b *Bundle) WriteKubeconfig(path, server, user string, groups ...string) error {
	certPEM, key, err := b.ca.issue(leaf{commonName: user, groups: groups, usage: x509.ExtKeyUsageClientAuth}, b.now)
	if err != nil {
		return err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["sandbox"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: b.CA}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}
	config.Contexts["sandbox"] = &clientcmdapi.Context{Cluster: "sandbox", AuthInfo: user}
	config.CurrentContext = "sandbox"
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig of %s: %w", user, err)
	}
	return writeFile(path, data, 0o600)
}

// DiscoveryKubeconfig is what kube-public/cluster-info holds: where the server is and whom to trust, and no user.
func (b *Bundle) DiscoveryKubeconfig(server string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[""] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: b.CA}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding the discovery kubeconfig: %w", err)
	}
	return data, nil
}
