package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"hash/fnv"
	"net/http"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/macnode"
)

const (
	// joinTimeout bounds one try to become a Node, joinAgain is when the next is made.
	joinTimeout = 3 * time.Minute
	joinAgain   = 5 * time.Second
	// certificateLife is what an agent asks for.
	certificateLife = 24 * time.Hour
	// statusEvery is how often an agent writes the status of its Node, though nothing has changed.
	statusEvery = 5 * time.Minute
	// turns are parts of the Nodes that do so at the same time.
	turns = 30
)

// joins makes the Node as an agent does that runs beside: it asks for a certificate with its token, and is a
// node from then on. It goes on trying until the Mac is erased.
func (s *standIn) joins(want document.Desired) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.wait.Go(func() {
		select {
		case <-s.ended:
			cancel()
		case <-ctx.Done():
		}
	})
	for ctx.Err() == nil && time.Now().Before(want.Join.Permit.NotAfter) {
		try, done := context.WithTimeout(ctx, joinTimeout)
		err := s.fleet.join(try, want)
		done()
		if err == nil || pause(ctx, joinAgain) != nil {
			return
		}
		s.fleet.note(err)
	}
}

// join makes one Mac a Node.
func join(ctx context.Context, want document.Desired) error {
	name := want.Host.Name
	asked, err := clientOf(&rest.Config{Host: want.Join.Server, BearerToken: want.Join.Token, TLSClientConfig: rest.TLSClientConfig{CAData: want.Join.CA}})
	if err != nil {
		return err
	}
	defer asked.close()
	certificate, key, err := certify(ctx, asked, name)
	if err != nil {
		return fmt.Errorf("asking for a certificate: %w", err)
	}
	self, err := clientOf(&rest.Config{Host: want.Join.Server, TLSClientConfig: rest.TLSClientConfig{CAData: want.Join.CA, CertData: certificate, KeyData: key}})
	if err != nil {
		return err
	}
	defer self.close()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: macnode.Labels(want.Host, want.Node.Labels)},
		Spec:       corev1.NodeSpec{ProviderID: want.Host.ProviderID, Taints: macnode.Taints(want.Node)},
	}
	if _, err := self.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the Node: %w", err)
	}
	if _, err := self.CoreV1().Nodes().PatchStatus(ctx, name, readyNow(true)); err != nil {
		return fmt.Errorf("making the Node Ready: %w", err)
	}
	return nil
}

// short is a client with connections of its own, which end with it.
type short struct {
	*kubernetes.Clientset
	close func()
}

func clientOf(config *rest.Config) (short, error) {
	// Otherwise the transport is kept for ever, and there is one for each certificate.
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return short{}, fmt.Errorf("building a Mac's client: %w", err)
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig, Proxy: http.ProxyFromEnvironment}
	config = &rest.Config{Host: config.Host, BearerToken: config.BearerToken, Transport: transport}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return short{}, fmt.Errorf("building a Mac's client: %w", err)
	}
	return short{set, transport.CloseIdleConnections}, nil
}

// certify has the manager approve, and the cluster sign, that somebody is this node.
func certify(ctx context.Context, asked short, name string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	request, err := cert.MakeCSR(private, &pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	id, uid, err := csr.RequestCertificateWithContext(ctx, asked.Clientset, request, "", certificatesv1.KubeAPIServerClientKubeletSignerName, ptr.To(certificateLife), usages, private)
	if err != nil {
		return nil, nil, err
	}
	if certificate, err = csr.WaitForCertificate(ctx, asked.Clientset, id, uid); err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// readyNow is what an agent says of a Node that is well; changed: it was not before.
func readyNow(changed bool) []byte {
	now := time.Now().UTC().Format(time.RFC3339)
	since := ""
	if changed {
		since = fmt.Sprintf(`,"lastTransitionTime":%q`, now)
	}
	return fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"the agent runs","lastHeartbeatTime":%q%s}]}}`, now, since)
}

// beat writes the status of each Node as its agent does, in turns, until ctx ends.
func (f *fleet) beat(ctx context.Context) {
	ticker := time.NewTicker(statusEvery / turns)
	defer ticker.Stop()
	for turn := uint32(0); ; turn = (turn + 1) % turns {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		machines, err := f.machines(ctx)
		if err != nil {
			continue // the next turn sees it
		}
		for _, m := range machines {
			hash := fnv.New32a()
			_, _ = hash.Write([]byte(m.Name)) // never fails
			if m.Status.Phase != running || hash.Sum32()%turns != turn {
				continue
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
			// One that is gone meanwhile is nobody's any more.
			_ = f.client.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, readyNow(false)))
		}
	}
}
