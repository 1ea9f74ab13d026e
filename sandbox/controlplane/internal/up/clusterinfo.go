package up

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	rbacapply "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

const (
	// clusterInfoReader is the name that kubeadm gives the Role and the RoleBinding.
	clusterInfoReader = "kubeadm:bootstrap-signer-clusterinfo"
	fieldManager      = "controlplane-up"
	// publishPoll is how often writing is tried again: kube-public and its rights appear a moment after /readyz.
	publishPoll = 100 * time.Millisecond
)

// publishClusterInfo lets anybody who can reach the server read kube-public/cluster-info: where the server is and whom
// to trust. The bootstrap signer adds one signature for each bootstrap token, so that a joiner can verify what it read.
func (p *plane) publishClusterInfo(ctx context.Context) error {
	client, err := p.adminClient()
	if err != nil {
		return err
	}
	discovery, err := p.certs.DiscoveryKubeconfig(p.server)
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, publishPoll, true, func(ctx context.Context) (bool, error) {
		last = applyClusterInfo(ctx, client, string(discovery))
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("publishing cluster-info: %w (last try: %w)", err, last)
	}
	return nil
}

func applyClusterInfo(ctx context.Context, client kubernetes.Interface, kubeconfig string) error {
	own := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	info := coreapply.ConfigMap(bootstrapapi.ConfigMapClusterInfo, metav1.NamespacePublic).
		WithData(map[string]string{bootstrapapi.KubeConfigKey: kubeconfig})
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespacePublic).Apply(ctx, info, own); err != nil {
		return fmt.Errorf("writing the ConfigMap: %w", err)
	}
	role := rbacapply.Role(clusterInfoReader, metav1.NamespacePublic).WithRules(rbacapply.PolicyRule().
		WithAPIGroups("").WithResources("configmaps").WithResourceNames(bootstrapapi.ConfigMapClusterInfo).WithVerbs("get"))
	if _, err := client.RbacV1().Roles(metav1.NamespacePublic).Apply(ctx, role, own); err != nil {
		return fmt.Errorf("writing the Role: %w", err)
	}
	binding := rbacapply.RoleBinding(clusterInfoReader, metav1.NamespacePublic).
		WithRoleRef(rbacapply.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(clusterInfoReader)).
		WithSubjects(rbacapply.Subject().WithAPIGroup(rbacv1.GroupName).WithKind(rbacv1.UserKind).WithName(user.Anonymous))
	if _, err := client.RbacV1().RoleBindings(metav1.NamespacePublic).Apply(ctx, binding, own); err != nil {
		return fmt.Errorf("writing the RoleBinding: %w", err)
	}
	return nil
}
