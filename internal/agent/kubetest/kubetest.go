// Package kubetest has client-go's clientsets, its fakes above all, where an agent wants
// its own client.
package kubetest

import (
	"net/url"

	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/watchlist"

	"github.com/macfleet/macfleet/internal/agent/kube"
)

// Client is a clientset as an agent sees it.
func Client(c kubernetes.Interface) kube.Client { return client{c} }

type client struct{ kubernetes.Interface }

// IsWatchListSemanticsUnSupported is what the clientset says: the fake streams no lists.
func (c client) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(c.Interface)
}

func (c client) Server() *url.URL { return c.CoreV1().RESTClient().Get().URL() }

func (c client) Events() record.EventSink {
	return &typedcorev1.EventSinkImpl{Interface: c.CoreV1().Events("")}
}

func (c client) Pods(namespace string) kube.Pods { return c.CoreV1().Pods(namespace) }

func (c client) Nodes() kube.Nodes { return c.CoreV1().Nodes() }

func (c client) Secrets(namespace string) kube.Secrets { return c.CoreV1().Secrets(namespace) }

func (c client) ConfigMaps(namespace string) kube.ConfigMaps { return c.CoreV1().ConfigMaps(namespace) }

func (c client) ServiceAccounts(namespace string) kube.ServiceAccounts {
	return c.CoreV1().ServiceAccounts(namespace)
}

func (c client) Leases(namespace string) kube.Leases { return c.CoordinationV1().Leases(namespace) }

func (c client) CertificateRequests() kube.CertificateRequests {
	return c.CertificatesV1().CertificateSigningRequests()
}

func (c client) TokenReviews() kube.TokenReviews { return c.AuthenticationV1().TokenReviews() }

func (c client) SubjectAccessReviews() kube.SubjectAccessReviews {
	return c.AuthorizationV1().SubjectAccessReviews()
}
