package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/kube"
)

// How long an answer is good without asking again: a kubelet's.
const (
	allowedTTL = 5 * time.Minute
	refusedTTL = 30 * time.Second
)

// authorizer asks the API server what a user may do with this Node.
type authorizer struct {
	node    string
	client  kube.Client
	reviews reviews
	answers *cache.LRUExpireCache
}

func newAuthorizer(node string, client kube.Client, r reviews, c clock.PassiveClock) *authorizer {
	return &authorizer{node: node, client: client, reviews: r, answers: cache.NewLRUExpireCacheWithClock(cached, c)}
}

// allowed reports whether the user may do it with a subresource of the Node.
func (a *authorizer) allowed(ctx context.Context, u *user, verb, subresource string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: u.name, UID: u.uid, Groups: u.groups, Extra: extraOf(u),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: a.node,
		},
	}
	key, err := keyOf(spec)
	if err != nil {
		return false, err
	}
	if known, found := a.answers.Get(key); found {
		allowed, _ := known.(bool)
		return allowed, nil
	}
	allowed, err := a.review(ctx, spec)
	if err != nil {
		return false, err
	}
	ttl := refusedTTL
	if allowed {
		ttl = allowedTTL
	}
	a.answers.Add(key, allowed, ttl)
	return allowed, nil
}

func (a *authorizer) review(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	var status authorizationv1.SubjectAccessReviewStatus
	err := a.reviews.do(ctx, func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: spec}
		answer, err := a.client.SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		status = answer.Status
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("reviewing access: %w", err)
	}
	return status.Allowed && !status.Denied, nil
}

// keyOf is short whatever a user's groups are.
func keyOf(spec authorizationv1.SubjectAccessReviewSpec) ([sha256.Size]byte, error) {
	data, err := json.Marshal(spec)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("writing a review of access: %w", err)
	}
	return sha256.Sum256(data), nil
}

func extraOf(u *user) map[string]authorizationv1.ExtraValue {
	extra := map[string]authorizationv1.ExtraValue{}
	for name, values := range u.extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	return extra
}
