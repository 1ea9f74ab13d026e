package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/macfleet/macfleet/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/world"
)

const managerUser = "system:serviceaccount:" + world.Namespace + ":macfleet-manager"

// nodeUsers begins the names of the agents' users.
const nodeUsers = "system:node:"

// auditEvent is what the API server says of one request.
type auditEvent struct {
	Verb, RequestURI, UserAgent string
	RequestReceivedTimestamp    time.Time
	User                        struct{ Username string }
	ResponseStatus              struct{ Code int }
	ObjectRef                   objectRef
}

type objectRef struct{ APIGroup, Resource, Subresource, Namespace, Name string }

// audited reads the API server's audit log.
func (f *fleet) audited() []auditEvent {
	f.Helper()
	file, err := os.Open(f.audit)
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	var events []auditEvent
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditEvent
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			f.Fatalf("reading the audit log: %v", err)
		}
		events = append(events, event)
	}
	if err := lines.Err(); err != nil {
		f.Fatal(err)
	}
	return events
}

// checkRightsSufficed: nothing that the manager, core's remote client or an agent
// asked for in a whole story was refused for good.
func (f *fleet) checkRightsSufficed() {
	f.Helper()
	seen := map[string]bool{}
	events := f.audited()
	for _, event := range events {
		user := event.User.Username
		if !ourUser(user) {
			continue
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(user, "system:"), ":")
		if strings.HasSuffix(user, ":capi-remote") {
			kind = "capi-remote"
		}
		seen[kind] = true
	}
	for _, event := range refusedForGood(events) {
		f.Errorf("%s may not %s %s", event.User.Username, event.Verb, event.RequestURI)
	}
	for _, kind := range []string{"serviceaccount", "capi-remote", "node", "bootstrap"} {
		if !seen[kind] {
			f.Errorf("the audit log shows no request of a %s", kind)
		}
	}
}

// refusedForGood are the requests of ours that were refused, the last first. A node's
// is not among them when it was allowed later: the node authorizer learns of a Pod a
// moment after the node does, and the agent asks again.
func refusedForGood(events []auditEvent) []auditEvent {
	type request struct {
		user, verb string
		object     objectRef
	}
	allowed := map[request]bool{}
	var refused []auditEvent
	for _, event := range slices.Backward(events) {
		user := event.User.Username
		r := request{user, event.Verb, event.ObjectRef}
		switch {
		case !ourUser(user):
		case event.ResponseStatus.Code < 400:
			allowed[r] = true
		case event.ResponseStatus.Code == http.StatusForbidden && !(allowed[r] && strings.HasPrefix(user, nodeUsers)):
			refused = append(refused, event)
		}
	}
	return refused
}

func ourUser(user string) bool {
	return strings.HasPrefix(user, "system:serviceaccount:"+world.Namespace+":") || strings.HasPrefix(user, nodeUsers) || strings.HasPrefix(user, "system:bootstrap:")
}

// checkRights: in no story was the manager refused anything, or did core, which is
// an administrator here, ask for more of our kinds than the chart's role gives it.
func (f *fleet) checkRights() {
	f.Helper()
	said := map[string]bool{}
	refuse := func(text string) {
		if !said[text] {
			f.Error(text)
		}
		said[text] = true
	}
	ours := 0
	for _, event := range f.audited() {
		inTime := f.released.IsZero() || event.RequestReceivedTimestamp.Before(f.released)
		if event.User.Username == managerUser && event.ResponseStatus.Code == http.StatusForbidden && inTime {
			refuse("the manager may not " + event.Verb + " " + event.ObjectRef.Resource + "." + event.ObjectRef.APIGroup + ": " + event.RequestURI)
		}
		if !strings.Contains(event.UserAgent, "cluster-api-controller-manager") || !ourGroup(event.ObjectRef.APIGroup) {
			continue
		}
		ours++
		if !f.coreMay(event) {
			refuse("core's role does not let it " + event.Verb + " " + event.ObjectRef.Resource + "/" + event.ObjectRef.Subresource + ": " + event.RequestURI)
		}
	}
	if ours == 0 {
		f.Error("the audit log shows no request of core for our kinds: the search is broken")
	}
}

func ourGroup(group string) bool {
	return group == infrav1.GroupVersion.Group || group == controlplanev1.GroupVersion.Group || group == bootstrapv1.GroupVersion.Group
}

func (f *fleet) coreMay(event auditEvent) bool {
	resource := event.ObjectRef.Resource
	if event.ObjectRef.Subresource != "" {
		resource += "/" + event.ObjectRef.Subresource
	}
	return slices.ContainsFunc(f.coreRole.Rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.APIGroups, event.ObjectRef.APIGroup) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, event.Verb)
	})
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
		"read Secrets without their names":            manager.List(f.Context(), &corev1.SecretList{}, client.InNamespace(world.Namespace)),
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
			"expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		},
	}
}
