package world

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// awaitRights waits until the manager's rights count in each place where the chart gives it
// some: the API server learns of roles by watching, and a manager that is refused ends.
func (w *World) awaitRights(ctx context.Context, of account) error {
	client, err := kubernetes.NewForConfig(w.cluster.Config())
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	for _, right := range []authorizationv1.ResourceAttributes{
		{Verb: "list", Resource: "nodes"},
		{Verb: "get", Resource: "secrets", Namespace: of.namespace},
		{Verb: "get", Resource: "configmaps", Name: "cluster-info", Namespace: metav1.NamespacePublic},
		{Verb: "create", Resource: "secrets", Namespace: metav1.NamespaceSystem},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + of.namespace + ":" + of.name, ResourceAttributes: &right,
		}}
		var last error
		err := wait.PollUntilContextCancel(ctx, applyPoll, true, func(ctx context.Context) (bool, error) {
			var answer *authorizationv1.SubjectAccessReview
			answer, last = client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			return last == nil && answer.Status.Allowed, nil
		})
		if err != nil {
			return fmt.Errorf("waiting for the manager's right to %s %s in namespace %q: %w", right.Verb, right.Resource, right.Namespace, errors.Join(last, err))
		}
	}
	return nil
}
