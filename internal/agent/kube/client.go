package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
)

// Kinds are those that an agent has to do with, and how they are written and read. All
// clients of a process share one.
type Kinds struct {
	scheme     *runtime.Scheme
	codecs     serializer.CodecFactory
	parameters runtime.ParameterCodec
}

// NewKinds fails where two kinds have one name.
func NewKinds() (*Kinds, error) {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, certificatesv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("putting together the kinds of an agent: %w", err)
		}
	}
	return &Kinds{scheme: s, codecs: serializer.NewCodecFactory(s), parameters: runtime.NewParameterCodec(s)}, nil
}

// Scheme knows the types of the kinds.
func (k *Kinds) Scheme() *runtime.Scheme { return k.scheme }

// client asks each group over the same connections and within the same limit of requests.
type client struct {
	core, coordination, certificates, authentication, authorization group
}

// group is one of the API server's, and how requests to it say their options.
type group struct {
	rest.Interface
	parameters runtime.ParameterCodec
}

// Client makes a client of the kinds. It connects when it is first asked.
func (k *Kinds) Client(config *rest.Config) (Client, error) {
	shared := *config
	if shared.UserAgent == "" {
		shared.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if shared.RateLimiter == nil && shared.QPS > 0 {
		shared.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(shared.QPS, shared.Burst)
	}
	over, err := rest.HTTPClientFor(&shared)
	if err != nil {
		return nil, fmt.Errorf("preparing connections to the API server: %w", err)
	}
	c := &client{}
	for _, g := range []struct {
		to      *group
		version schema.GroupVersion
	}{
		{&c.core, corev1.SchemeGroupVersion},
		{&c.coordination, coordinationv1.SchemeGroupVersion},
		{&c.certificates, certificatesv1.SchemeGroupVersion},
		{&c.authentication, authenticationv1.SchemeGroupVersion},
		{&c.authorization, authorizationv1.SchemeGroupVersion},
	} {
		if *g.to, err = k.group(shared, over, g.version); err != nil {
			return nil, fmt.Errorf("making a client of %s: %w", g.version, err)
		}
	}
	return c, nil
}

func (k *Kinds) group(config rest.Config, over *http.Client, version schema.GroupVersion) (group, error) {
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(k.scheme, k.codecs).WithoutConversion()
	asked, err := rest.RESTClientForConfigAndClient(&config, over)
	return group{asked, k.parameters}, err
}

// kindOf is a kind's client, which speaks protobuf where nothing else is asked for.
func kindOf[T interface {
	runtime.Object
	metav1.Object
}, L runtime.Object](g group, resource, namespace string, one func() T, list func() L) *gentype.ClientWithList[T, L] {
	return gentype.NewClientWithList(resource, g, g.parameters, namespace, one, list, gentype.PrefersProtobuf[T]())
}

func fresh[T any]() *T { return new(T) }

func (c *client) Server() *url.URL { return c.core.Get().URL() }

func (c *client) Pods(namespace string) Pods {
	return kindOf(c.core, "pods", namespace, fresh[corev1.Pod], fresh[corev1.PodList])
}

func (c *client) Nodes() Nodes {
	return kindOf(c.core, "nodes", "", fresh[corev1.Node], fresh[corev1.NodeList])
}

func (c *client) Secrets(namespace string) Secrets {
	return kindOf(c.core, "secrets", namespace, fresh[corev1.Secret], fresh[corev1.SecretList])
}

func (c *client) ConfigMaps(namespace string) ConfigMaps {
	return kindOf(c.core, "configmaps", namespace, fresh[corev1.ConfigMap], fresh[corev1.ConfigMapList])
}

func (c *client) Leases(namespace string) Leases {
	return kindOf(c.coordination, "leases", namespace, fresh[coordinationv1.Lease], fresh[coordinationv1.LeaseList])
}

func (c *client) CertificateRequests() CertificateRequests {
	return kindOf(c.certificates, "certificatesigningrequests", "", fresh[certificatesv1.CertificateSigningRequest], fresh[certificatesv1.CertificateSigningRequestList])
}

func (c *client) TokenReviews() TokenReviews {
	return gentype.NewClient("tokenreviews", c.authentication, c.authentication.parameters, "",
		fresh[authenticationv1.TokenReview], gentype.PrefersProtobuf[*authenticationv1.TokenReview]())
}

func (c *client) SubjectAccessReviews() SubjectAccessReviews {
	return gentype.NewClient("subjectaccessreviews", c.authorization, c.authorization.parameters, "",
		fresh[authorizationv1.SubjectAccessReview], gentype.PrefersProtobuf[*authorizationv1.SubjectAccessReview]())
}

func (c *client) ServiceAccounts(namespace string) ServiceAccounts {
	return serviceAccounts{c.core, namespace}
}

type serviceAccounts struct {
	core      group
	namespace string
}

func (s serviceAccounts) CreateToken(ctx context.Context, name string, request *authenticationv1.TokenRequest, opts metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	made := &authenticationv1.TokenRequest{}
	err := s.core.Post().UseProtobufAsDefault().Namespace(s.namespace).Resource("serviceaccounts").Name(name).SubResource("token").
		VersionedParams(&opts, s.core.parameters).Body(request).Do(ctx).Into(made)
	return made, err
}

func (c *client) Events() record.EventSink { return events{c} }

// events go where the object is that they are about.
type events struct{ *client }

func (e events) in(event *corev1.Event) *gentype.ClientWithList[*corev1.Event, *corev1.EventList] {
	return kindOf(e.core, "events", event.Namespace, fresh[corev1.Event], fresh[corev1.EventList])
}

func (e events) Create(event *corev1.Event) (*corev1.Event, error) {
	return e.in(event).Create(context.Background(), event, metav1.CreateOptions{})
}

func (e events) Update(event *corev1.Event) (*corev1.Event, error) {
	return e.in(event).Update(context.Background(), event, metav1.UpdateOptions{})
}

func (e events) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	return e.in(event).Patch(context.Background(), event.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
}
