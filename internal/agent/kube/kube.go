// Package kube reaches the API server for the few kinds that an agent has to do with.
// client-go's own clientset registers every kind of every group when a process starts: a
// quarter of the agent's file, which agents and shims then have in memory, for kinds that
// none of them asks for.
package kube

import (
	"context"
	"net/url"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/record"
)

// Client is the API server. What it gives for each kind are the methods of client-go's
// clients of those kinds, as far as an agent needs them.
type Client interface {
	// Server is its address.
	Server() *url.URL
	// Events takes events of all namespaces.
	Events() record.EventSink

	Pods(namespace string) Pods
	Nodes() Nodes
	Secrets(namespace string) Secrets
	ConfigMaps(namespace string) ConfigMaps
	ServiceAccounts(namespace string) ServiceAccounts
	Leases(namespace string) Leases
	CertificateRequests() CertificateRequests
	TokenReviews() TokenReviews
	SubjectAccessReviews() SubjectAccessReviews
}

// Pods of a namespace.
type Pods interface {
	Lister[*corev1.PodList]
	Patcher[*corev1.Pod]
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Nodes of the cluster.
type Nodes interface {
	Getter[*corev1.Node]
	Creator[*corev1.Node]
	Lister[*corev1.NodeList]
	Patcher[*corev1.Node]
}

// Secrets of a namespace.
type Secrets interface{ Lister[*corev1.SecretList] }

// ConfigMaps of a namespace.
type ConfigMaps interface{ Lister[*corev1.ConfigMapList] }

// ServiceAccounts of a namespace.
type ServiceAccounts interface {
	CreateToken(ctx context.Context, name string, request *authenticationv1.TokenRequest, opts metav1.CreateOptions) (*authenticationv1.TokenRequest, error)
}

// Leases of a namespace.
type Leases interface {
	Getter[*coordinationv1.Lease]
	Creator[*coordinationv1.Lease]
	Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// CertificateRequests are the CertificateSigningRequests of the cluster.
type CertificateRequests interface {
	Creator[*certificatesv1.CertificateSigningRequest]
	Lister[*certificatesv1.CertificateSigningRequestList]
}

// TokenReviews say whose a token is.
type TokenReviews interface {
	Creator[*authenticationv1.TokenReview]
}

// SubjectAccessReviews say what somebody may do.
type SubjectAccessReviews interface {
	Creator[*authorizationv1.SubjectAccessReview]
}

// Getter reads one object of a kind.
type Getter[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

// Creator makes objects of a kind.
type Creator[T any] interface {
	Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
}

// Lister lists and watches objects of a kind.
type Lister[L any] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Patcher patches objects of a kind.
type Patcher[T any] interface {
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
}
