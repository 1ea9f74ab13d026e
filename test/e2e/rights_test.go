package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/sandbox/world"
)

const managerUser = "system:serviceaccount:" + world.Namespace + ":macfleet-manager"

// checkRightsSufficed reads the API server's audit log: nothing that the manager,
// core's remote client or an agent asked for in a whole story was refused.
func (f *fleet) checkRightsSufficed(audit string) {
	f.Helper()
	file, err := os.Open(audit)
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	seen := map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb, RequestURI string
			User             struct{ Username string }
			ResponseStatus   struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			f.Fatalf("reading the audit log: %v", err)
		}
		user := event.User.Username
		ours := strings.HasPrefix(user, "system:serviceaccount:"+world.Namespace+":") || strings.HasPrefix(user, "system:node:") || strings.HasPrefix(user, "system:bootstrap:")
		if !ours {
			continue
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(user, "system:"), ":")
		if strings.HasSuffix(user, ":capi-remote") {
			kind = "capi-remote"
		}
		seen[kind] = true
		if event.ResponseStatus.Code == 403 {
			f.Errorf("%s may not %s %s", user, event.Verb, event.RequestURI)
		}
	}
	if err := lines.Err(); err != nil {
		f.Fatal(err)
	}
	for _, kind := range []string{"serviceaccount", "capi-remote", "node", "bootstrap"} {
		if !seen[kind] {
			f.Errorf("the audit log shows no request of a %s", kind)
		}
	}
}

// managerIsHeldToItsRights asks, as the manager, for what it must not have.
func (f *fleet) managerIsHeldToItsRights() {
	config := f.world.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: managerUser, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	manager, err := client.New(config, client.Options{Scheme: f.client.Scheme()})
	if err != nil {
		f.Fatal(err)
	}
	opaque := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "backdoor", Namespace: metav1.NamespaceSystem}}
	other := bootstrapToken("abcdef", "system:bootstrappers:kubeadm:default-node-token")
	for name, err := range map[string]error{
		"create any Secret in kube-system":            manager.Create(f.Context(), opaque),
		"create a bootstrap token of another group":   manager.Create(f.Context(), other),
		"read Secrets of kube-system":                 manager.List(f.Context(), &corev1.SecretList{}, client.InNamespace(metav1.NamespaceSystem)),
		"read Secrets of every namespace":             manager.List(f.Context(), &corev1.SecretList{}),
		"read Secrets of a namespace that is others'": manager.List(f.Context(), &corev1.SecretList{}, client.InNamespace(metav1.NamespaceDefault)),
	} {
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			f.Errorf("the manager may %s: %v", name, err)
		}
	}
	if err := manager.Create(f.Context(), bootstrapToken("fedcba", "system:bootstrappers:macfleet")); err != nil {
		f.Errorf("the manager may not create a bootstrap token of its own group: %v", err)
	}
}

// agentsHaveNoClusterRole: a node's own rights are all that an agent has.
func (f *fleet) agentsHaveNoClusterRole() {
	node := "system:node:" + f.nodes()[0].Name
	for _, attributes := range []authorizationv1.ResourceAttributes{
		{Verb: "list", Resource: "secrets"},
		{Verb: "delete", Resource: "nodes", Name: f.nodes()[0].Name},
		{Verb: "list", Group: "infrastructure.cluster.x-k8s.io", Resource: "scalewayapplesiliconhosts"},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: node, Groups: []string{"system:nodes", "system:authenticated"}, ResourceAttributes: &attributes,
		}}
		if err := f.client.Create(f.Context(), review); err != nil {
			f.Fatal(err)
		}
		if review.Status.Allowed {
			f.Errorf("an agent may %s %s: %s", attributes.Verb, attributes.Resource, review.Status.Reason)
		}
	}
}

func bootstrapToken(id, group string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id, Namespace: metav1.NamespaceSystem},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true", "auth-extra-groups": group,
		},
	}
}
