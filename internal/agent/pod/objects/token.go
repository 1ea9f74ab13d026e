package objects

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxTokenAge: a token is replaced after a day however long it would live, as a
	// kubelet does it.
	maxTokenAge = 24 * time.Hour
	// refreshPercent of its life a token is used; a kubelet's figure.
	refreshPercent = 80
	// tokenJitter spreads the refreshes of Pods that began together; a kubelet's
	// figure.
	tokenJitter = 10 * time.Second
	// tokenRetry is when a refresh that failed is tried again, while the token at
	// hand is still good.
	tokenRetry = time.Minute
	// refusedTries and refusedPause: the API server may refuse a token for a Pod that was
	// scheduled a moment ago, until its authorizer knows the Pod's node.
	refusedTries = 5
	refusedPause = 500 * time.Millisecond
	// defaultTokenSeconds is the API's default of expirationSeconds.
	defaultTokenSeconds = 3600
)

// TokenRequest says what a token is for.
type TokenRequest struct {
	// Audience of the token; empty is the API server's own.
	Audience string
	// Seconds of life; 0 is an hour.
	Seconds int64
}

type tokenKey struct {
	pod types.UID
	TokenRequest
}

type token struct {
	value     string
	refreshAt time.Time
	expires   time.Time
}

type tokens struct {
	mu     sync.Mutex
	cached map[tokenKey]token
}

func (t *tokens) get(k tokenKey) token {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cached[k]
}

func (t *tokens) put(k tokenKey, v token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cached[k] = v
}

func (t *tokens) drop(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.cached {
		if k.pod == uid {
			delete(t.cached, k)
		}
	}
}

// Token returns a token of the Pod's service account that is bound to the Pod, and
// when to ask for the next: at 80 % of its life or after a day. While the API
// server is away it returns the one before, as long as that is good. Nothing is
// asked of the API server before a refresh is due.
func (s *Store) Token(ctx context.Context, p *corev1.Pod, r TokenRequest) (value string, refreshAt time.Time, err error) {
	r.Seconds = cmp.Or(r.Seconds, defaultTokenSeconds)
	key := tokenKey{p.UID, r}
	now := s.clock.Now()
	old := s.tokens.get(key)
	if now.Before(old.refreshAt) {
		return old.value, old.refreshAt, nil
	}
	fresh, err := s.insist(ctx, p, r)
	switch {
	case err == nil:
	case now.Before(old.expires):
		s.log.Warn("a service account token is not refreshed yet, the one before is still good", "pod", p.Namespace+"/"+p.Name, "err", err)
		fresh = old
		fresh.refreshAt = now.Add(tokenRetry)
	default:
		return "", time.Time{}, fmt.Errorf("asking for a token of service account %s/%s: %w", p.Namespace, p.Spec.ServiceAccountName, err)
	}
	s.keep(key, fresh)
	return fresh.value, fresh.refreshAt, nil
}

// keep caches a token as long as its Pod is held, so that none outlives it here.
func (s *Store) keep(k tokenKey, t token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods[k.pod] != nil {
		s.tokens.put(k, t)
	}
}

// insist asks again soon where the API server may not know the Pod's node yet.
func (s *Store) insist(ctx context.Context, p *corev1.Pod, r TokenRequest) (token, error) {
	for try := 1; ; try++ {
		t, err := s.request(ctx, p, r)
		if !apierrors.IsForbidden(err) || try >= refusedTries {
			return t, err
		}
		again := s.clock.NewTimer(refusedPause)
		select {
		case <-again.C():
		case <-ctx.Done():
			again.Stop()
			return t, err
		}
	}
}

func (s *Store) request(ctx context.Context, p *corev1.Pod, r TokenRequest) (token, error) {
	ask := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &r.Seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID},
	}}
	if r.Audience != "" {
		ask.Spec.Audiences = []string{r.Audience}
	}
	now := s.clock.Now()
	got, err := s.client.ServiceAccounts(p.Namespace).CreateToken(ctx, p.Spec.ServiceAccountName, ask, metav1.CreateOptions{})
	if err != nil {
		return token{}, err
	}
	// The server may shorten the life; its own clock is not ours, so that only the
	// length counts.
	seconds := r.Seconds
	if got.Spec.ExpirationSeconds != nil {
		seconds = *got.Spec.ExpirationSeconds
	}
	life := time.Duration(seconds) * time.Second
	use := min(life*refreshPercent/100, maxTokenAge)
	use -= min(rand.N(tokenJitter), use/2)
	return token{value: got.Status.Token, refreshAt: now.Add(use), expires: now.Add(life)}, nil
}
