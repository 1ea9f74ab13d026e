package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/macfleet/macfleet/sandbox/cluster"
	"github.com/macfleet/macfleet/sandbox/subprocess"
)

// errNoInMemory says that the provider was not built.
var errNoInMemory = errors.New("the in-memory provider of Cluster API is not built: make bin/inmemoryprovider")

// startInMemory starts Cluster API's in-memory provider, and makes its Cluster.
func (w *world) startInMemory(ctx context.Context, c *cluster.Cluster, dir string, s settings) (stop func() error, err error) {
	if _, err := os.Stat(s.inMemory); err != nil {
		return nil, errNoInMemory
	}
	if err := installInMemoryCRDs(ctx, c); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.inMemory, "--kubeconfig="+c.Kubeconfig(), "--diagnostics-address=0", "--health-addr=127.0.0.1:0",
		fmt.Sprint("--webhook-port=", port), "--webhook-cert-dir="+c.WebhookCertDir(), "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields")
	cmd.Env = append(os.Environ(), "POD_IP=127.0.0.1")
	p, err := subprocess.Start("in-memory provider", filepath.Join(dir, "inmemory.log"), cmd, syscall.SIGTERM)
	if err != nil {
		return nil, err
	}
	stop = func() error { return p.Stop(context.WithoutCancel(ctx), grace) }
	if err := errors.Join(w.makeAuthorities(ctx), w.applyFleet(ctx, inMemoryFleet)); err != nil {
		return nil, errors.Join(err, stop())
	}
	err = until(ctx, func() (bool, error) {
		select {
		case <-p.Ended():
			return false, p.Exit()
		default:
		}
		m := &clusterv1.Machine{}
		err := w.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: inMemoryFleet + "-control-plane"}, m)
		return m.Status.Phase == string(clusterv1.MachinePhaseRunning), err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the in-memory control plane: %w", err), stop())
	}
	return stop, nil
}

// freePort is for webhooks that nobody asks: without one the provider does not start.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// grace is how long the provider may take to end.
const grace = 10 * time.Second

// installInMemoryCRDs takes the CRDs from the provider's module, and has core know what contract they are of,
// as the provider's kustomization does.
func installInMemoryCRDs(ctx context.Context, c *cluster.Cluster) error {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api/test")
	list.Dir, list.Env = filepath.Join("test", "clusterapi"), append(os.Environ(), "GOWORK=off")
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("looking for the in-memory provider's module: %w", err)
	}
	crds := envtest.CRDInstallOptions{
		Paths:              []string{filepath.Join(strings.TrimSpace(string(out)), "infrastructure", "docker", "config", "crd", "bases")},
		ErrorIfPathMissing: true, MaxTime: hang,
	}
	if err := envtest.ReadCRDFiles(&crds); err != nil {
		return fmt.Errorf("reading the in-memory provider's CRDs: %w", err)
	}
	for _, crd := range crds.CRDs {
		crd.Labels = map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}
	}
	crds.Paths = nil
	if _, err := envtest.InstallCRDs(c.Config(), crds); err != nil {
		return fmt.Errorf("installing the in-memory provider's CRDs: %w", err)
	}
	return nil
}

// makeAuthorities makes those that a kubeadm control plane would have made.
func (w *world) makeAuthorities(ctx context.Context) error {
	for _, purpose := range []string{"ca", "etcd"} {
		cert, key, err := newAuthority(purpose)
		if err != nil {
			return fmt.Errorf("making the authority %s: %w", purpose, err)
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: inMemoryFleet + "-" + purpose, Labels: map[string]string{clusterv1.ClusterNameLabel: inMemoryFleet},
			},
			Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"tls.crt": cert, "tls.key": key},
		}
		if err := w.client.Create(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}

func newAuthority(name string) (cert, key []byte, err error) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	var c, k bytes.Buffer
	err = errors.Join(
		pem.Encode(&c, &pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.Encode(&k, &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}),
	)
	return c.Bytes(), k.Bytes(), err
}
