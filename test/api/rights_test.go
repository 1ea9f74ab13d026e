package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/agent/pod/admissiontest"
)

const (
	// release is the namespace of the chart that is installed here: the sandbox's.
	release = "macfleet-system"
	// poolPrefix is its pool, and otherPool one of the namespace other-team.
	poolPrefix = "tuist-pool-"
	otherPool  = "gpu-pool-"
	otherTeam  = "other-team"

	rights = 3 * time.Minute
)

// Who writes: each stands for a role, bound here as the book says.
const (
	clusterAdmin   = "cluster-admin"
	fleetAuthor    = "fleet-author"
	hostOperator   = "host-operator"
	namespaceAdmin = "namespace-admin" // everything, in one namespace
	maintainer     = "maintainer"      // writes hosts, without the verb claim
	manager        = "system:serviceaccount:" + release + ":macfleet-manager"
	core           = "system:serviceaccount:capi-system:capi-manager"
	remote         = "system:serviceaccount:" + release + ":capi-remote" // core, as it reaches Nodes
	mac            = "system:node:a-mac"
	collector      = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// clients are those of everybody above.
var clients = map[string]client.Client{}

// installRights installs the chart's policies and roles, as they are rendered for the
// sandbox, and binds them. It returns when every policy refuses what it should.
func installRights(ctx context.Context, config *rest.Config) error {
	for _, name := range []string{release, otherTeam} {
		if err := api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	if err := installChart(ctx); err != nil {
		return err
	}
	for _, object := range bindings() {
		if err := api.Create(ctx, object); err != nil {
			return fmt.Errorf("binding %s: %w", object.GetName(), err)
		}
	}
	for _, name := range []string{clusterAdmin, fleetAuthor, hostOperator, namespaceAdmin, maintainer, manager, core, remote, mac, collector} {
		as := rest.CopyConfig(config)
		as.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
		if name == mac {
			as.Impersonate.Groups = append(as.Impersonate.Groups, "system:nodes")
		}
		c, err := client.New(as, client.Options{Scheme: api.Scheme()})
		if err != nil {
			return err
		}
		clients[name] = c
	}
	return awaitPolicies(ctx)
}

// installChart applies what of the chart says who may do what.
func installChart(ctx context.Context) error {
	file, err := os.Open(filepath.Join("..", "..", "sandbox", "world", "rendered", "chart.yaml"))
	if err != nil {
		return err
	}
	defer file.Close()
	kinds := []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "RuntimeClass"}
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if !slices.Contains(kinds, object.GetKind()) {
			continue
		}
		if err := client.WithFieldValidation(api, metav1.FieldValidationStrict).Create(ctx, object); err != nil {
			return fmt.Errorf("installing %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// bindings bind the shipped roles, and those that others bring.
func bindings() []client.Object {
	everywhere := func(user, role string) client.Object {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "test:" + user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
	}
	in := func(namespace, user, role string) client.Object {
		return &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "test:" + user, Namespace: namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
	}
	hosts := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: maintainer},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"scalewayapplesiliconhosts", "scalewayapplesiliconhosts/status"},
			Verbs: []string{"create", "get", "list", "patch", "update"},
		}},
	}
	// The manager's role does not have this; its policy is to hold even then.
	secrets := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "updates-secrets"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"update"}}},
	}
	// What core's own role has, as clusterctl installs it.
	machines := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "writes-machines"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"machines", "machines/status", "machinesets", "machinedeployments"},
			Verbs: []string{"create", "delete", "get", "list", "patch", "update"},
		}},
	}
	// The Node authorizer and NodeRestriction are left out here: the policies are tried alone.
	nodes := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "writes-nodes"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes", "nodes/status"}, Verbs: []string{"create", "get", "patch", "update"}}},
	}
	coreToo := everywhere(core, machines.Name)
	coreToo.SetName("test:core-machines")
	return []client.Object{
		machines, coreToo, nodes, everywhere(mac, nodes.Name),
		secrets, in(metav1.NamespaceSystem, manager, secrets.Name),
		everywhere(clusterAdmin, "cluster-admin"),
		everywhere(hostOperator, "macfleet-host-operator"),
		everywhere(core, "macfleet-capi-aggregate"), everywhere(collector, "cluster-admin"),
		in("default", fleetAuthor, "macfleet-fleet-author"), in(otherTeam, fleetAuthor, "macfleet-fleet-author"),
		in("default", namespaceAdmin, "cluster-admin"),
		hosts, everywhere(maintainer, maintainer),
	}
}

// awaitPolicies waits until the API server has read each policy: one write for each
// that nothing else would refuse, and that is not kept.
func awaitPolicies(ctx context.Context) error {
	claimed := newMachine()
	claimed.Spec.HostRef = &infrav1.HostReference{Name: "h", ClaimToken: "t"}
	pooled := newMachine()
	pooled.Spec.AdoptPoolPrefix = otherPool
	template := newTemplate()
	template.Spec.Template.Spec.AdoptPoolPrefix = otherPool
	pod := admissiontest.New()
	pod.Spec.HostNetwork = true
	for _, probe := range []struct {
		by     string
		object client.Object
	}{
		{namespaceAdmin, claimed},
		{maintainer, newHost()},
		{namespaceAdmin, pooled},
		{namespaceAdmin, template},
		{clusterAdmin, pod},
		{manager, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: metav1.NamespaceSystem}}},
	} {
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, rights, true, func(ctx context.Context) (bool, error) {
			err := clients[probe.by].Create(ctx, probe.object.DeepCopyObject().(client.Object), client.DryRunAll)
			return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy"), nil
		})
		if err != nil {
			return fmt.Errorf("no policy refuses a %T: %w", probe.object, err)
		}
	}
	return awaitTemplatePolicy(ctx)
}

// awaitTemplatePolicy waits likewise for the one that concerns changes alone.
func awaitTemplatePolicy(ctx context.Context) error {
	template := newTemplate()
	if err := api.Create(ctx, template); err != nil {
		return fmt.Errorf("creating a template: %w", err)
	}
	template.Spec.Template.Spec.Type = "M4-M"
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, rights, true, func(ctx context.Context) (bool, error) {
		err := api.Update(ctx, template.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy"), nil
	})
	if err != nil {
		return fmt.Errorf("no policy refuses a changed template: %w", err)
	}
	return nil
}

// refused says so unless the error is a refusal that says this, in one line.
func refused(t *testing.T, err error, says string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("allowed, want a refusal that says %q", says)
	case !strings.Contains(err.Error(), says):
		t.Errorf("got %v, want a refusal that says %q", err, says)
	case strings.Contains(strings.TrimSpace(err.Error()), "\n"):
		t.Errorf("more than one line: %q", err)
	}
}
