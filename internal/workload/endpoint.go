// Package workload is the cluster that Macs join, as the manager uses it: where
// its API server is, the short-lived tokens that let a Mac in, and emptying a
// Node before it goes. It decides nothing about Machines; the controllers do.
package workload

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Endpoint is an API server as a machine outside the cluster reaches it.
type Endpoint struct {
	// Server is its URL.
	Server string
	// CA is its certificate authority, PEM.
	CA []byte
}

// UnknownEndpointError says that nothing tells where the API server is reached
// from outside the cluster.
type UnknownEndpointError struct{ Cause string }

// Error names what was looked at.
func (e *UnknownEndpointError) Error() string {
	return "the API server's address for Macs is unknown: " + e.Cause + "; publish kube-public/cluster-info or set --api-server-url"
}

// Discovery finds the endpoint that Macs are given.
type Discovery struct {
	// Reader reads kube-public/cluster-info, uncached.
	Reader client.Reader
	// ServerURL overrides the published address. Default: cluster-info's.
	ServerURL string
	// FallbackCA is used with ServerURL where cluster-info names no authority.
	FallbackCA []byte
}

// Endpoint returns where Macs reach the API server, or *UnknownEndpointError.
func (d Discovery) Endpoint(ctx context.Context) (Endpoint, error) {
	published, cause, err := d.published(ctx)
	if err != nil {
		return Endpoint{}, err
	}
	if d.ServerURL != "" {
		return d.overridden(published)
	}
	if cause != "" {
		return Endpoint{}, &UnknownEndpointError{Cause: cause}
	}
	return published, nil
}

func (d Discovery) overridden(published Endpoint) (Endpoint, error) {
	ca := published.CA
	if len(ca) == 0 {
		ca = d.FallbackCA
	}
	if len(ca) == 0 {
		return Endpoint{}, &UnknownEndpointError{Cause: "no certificate authority is known for " + d.ServerURL}
	}
	return Endpoint{Server: d.ServerURL, CA: ca}, nil
}

// published reads cluster-info. A cause says why it cannot be used.
func (d Discovery) published(ctx context.Context) (endpoint Endpoint, cause string, err error) {
	info := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: metav1.NamespacePublic, Name: bootstrapapi.ConfigMapClusterInfo}
	err = d.Reader.Get(ctx, key, info)
	switch {
	case apierrors.IsNotFound(err):
		return Endpoint{}, "kube-public/cluster-info does not exist", nil
	case apierrors.IsForbidden(err):
		return Endpoint{}, "kube-public/cluster-info may not be read", nil
	case err != nil:
		return Endpoint{}, "", fmt.Errorf("reading kube-public/cluster-info: %w", err)
	}
	endpoint, cause = parseClusterInfo(info.Data[bootstrapapi.KubeConfigKey])
	return endpoint, cause, nil
}

func parseClusterInfo(kubeconfig string) (Endpoint, string) {
	config, err := clientcmd.Load([]byte(kubeconfig))
	if err != nil {
		return Endpoint{}, "kube-public/cluster-info holds no valid kubeconfig"
	}
	for _, cluster := range config.Clusters {
		if len(cluster.CertificateAuthorityData) == 0 {
			continue
		}
		if InCluster(cluster.Server) {
			return Endpoint{}, "kube-public/cluster-info names an address that exists inside the cluster only"
		}
		return Endpoint{Server: cluster.Server, CA: cluster.CertificateAuthorityData}, ""
	}
	return Endpoint{}, "kube-public/cluster-info names no server with a certificate authority"
}

// InCluster reports whether a server URL names a Service, which a Mac cannot
// reach.
func InCluster(server string) bool {
	parsed, err := url.Parse(server)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(parsed.Hostname(), ".")
	if host == "kubernetes" || strings.HasPrefix(host, "kubernetes.default") {
		return true
	}
	return strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".svc.cluster.local")
}
