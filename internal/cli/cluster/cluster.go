// Package cluster is how the operator's verbs speak to a cluster: the kubeconfig as
// kubectl finds it, one client that knows our kinds, and errors that say in one line what
// is in the way. What is read with it is for snapshot.
package cluster

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Requests of one verb: it asks for some lists at once, and no loop of ours needs a brake.
const (
	qps   = 100
	burst = 200
)

// Flags say which cluster, as whom, and where in it. They are kubectl's, by name and
// default. cli-runtime has them too, and brings kustomize along.
type Flags struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

// AddTo adds them to a verb.
func (f *Flags) AddTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "the kubeconfig to use (default: as kubectl)")
	all := clientcmd.RecommendedConfigOverrideFlags("")
	clientcmd.BindOverrideFlags(&f.overrides, flags, clientcmd.ConfigOverrideFlags{
		AuthOverrideFlags: clientcmd.AuthOverrideFlags{
			Impersonate:       all.AuthOverrideFlags.Impersonate,
			ImpersonateGroups: all.AuthOverrideFlags.ImpersonateGroups,
		},
		ContextOverrideFlags: clientcmd.ContextOverrideFlags{
			ClusterName:  all.ContextOverrideFlags.ClusterName,
			AuthInfoName: all.ContextOverrideFlags.AuthInfoName,
			Namespace:    all.ContextOverrideFlags.Namespace,
		},
		CurrentContext: all.CurrentContext,
		Timeout:        all.Timeout,
	})
}

func (f *Flags) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	rules.WarnIfAllMissing = false // we say so ourselves, in one line
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.overrides)
}

// Config is the cluster's.
func (f *Flags) Config() (*rest.Config, error) {
	config, err := f.loader().ClientConfig()
	if err != nil {
		return nil, f.unreadable(err)
	}
	config.QPS, config.Burst = qps, burst
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// Chosen is the namespace that was typed; empty: none was.
func (f *Flags) Chosen() string { return f.overrides.Context.Namespace }

// NameOf is the name of [NAMESPACE/]NAME; its namespace is as if it had been typed with -n,
// unless another one was: nothing has the name then. No namespace has a dot in its name, as a
// kind with its group does.
func (f *Flags) NameOf(name string) string {
	namespace, rest, both := strings.Cut(name, "/")
	if !both || strings.Contains(namespace, ".") || f.Chosen() != "" && f.Chosen() != namespace {
		return name
	}
	f.overrides.Context.Namespace = namespace
	return rest
}

// Namespace is the one that was typed, else the context's.
func (f *Flags) Namespace() (string, error) {
	namespace, _, err := f.loader().Namespace()
	if err != nil {
		return "", f.unreadable(err)
	}
	return namespace, nil
}

// Client speaks to the cluster.
func (f *Flags) Client() (client.WithWatch, error) {
	config, err := f.Config()
	if err != nil {
		return nil, err
	}
	return NewClient(config)
}

// NewClient knows our kinds, and asks nobody which there are: a verb is to answer at once.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent())
	way, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing a client: %w", err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper(), HTTPClient: way})
	if err != nil {
		return nil, fmt.Errorf("preparing a client: %w", err)
	}
	return newListing(c, config, way)
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme, controlplanev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("preparing a client: %w", err)
		}
	}
	return scheme, nil
}

func mapper() meta.RESTMapper {
	known := meta.NewDefaultRESTMapper(nil)
	for scope, kinds := range map[meta.RESTScope][]schema.GroupVersionKind{
		meta.RESTScopeRoot: {
			infrav1.GroupVersion.WithKind("ScalewayAppleSiliconHost"),
			corev1.SchemeGroupVersion.WithKind("Node"),
			corev1.SchemeGroupVersion.WithKind("Namespace"),
		},
		meta.RESTScopeNamespace: {
			infrav1.GroupVersion.WithKind("ScalewayAppleSiliconMachine"),
			infrav1.GroupVersion.WithKind("ScalewayAppleSiliconMachineTemplate"),
			infrav1.GroupVersion.WithKind("ScalewayAppleSiliconCluster"),
			infrav1.GroupVersion.WithKind("ScalewayAppleSiliconRemediation"),
			infrav1.GroupVersion.WithKind("MacNodeProfile"),
			controlplanev1.GroupVersion.WithKind("ExternalControlPlane"),
			clusterv1.GroupVersion.WithKind("Cluster"),
			clusterv1.GroupVersion.WithKind("Machine"),
			clusterv1.GroupVersion.WithKind("MachineDeployment"),
			clusterv1.GroupVersion.WithKind("MachineHealthCheck"),
			appsv1.SchemeGroupVersion.WithKind("Deployment"),
			coordinationv1.SchemeGroupVersion.WithKind("Lease"),
			corev1.SchemeGroupVersion.WithKind("Pod"),
			corev1.SchemeGroupVersion.WithKind("Secret"),
			corev1.SchemeGroupVersion.WithKind("Event"),
		},
	} {
		for _, kind := range kinds {
			known.Add(kind, scope)
			// A cache of one namespace asks for the scope of lists, too.
			known.Add(kind.GroupVersion().WithKind(kind.Kind+"List"), scope)
		}
	}
	return known
}
