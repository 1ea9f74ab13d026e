package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/kube"
)

const (
	// tokenTTL is how long a token that was good is good: a kubelet's.
	tokenTTL = 2 * time.Minute
	// knownToken is how long it is remembered, to be asked about before those of strangers.
	knownToken = time.Hour
	// badTokenTTL is how long one that was not is refused without asking.
	badTokenTTL = 10 * time.Second
	// cached answers at most, of either kind.
	cached = 1024
	// maxToken is longer than any token the API server makes.
	maxToken = 32 << 10
	// authenticated is a group of everybody who is somebody.
	authenticated = "system:authenticated"
)

// user is who sends a request.
type user struct {
	name   string
	uid    string
	groups []string
	extra  map[string]authenticationv1.ExtraValue
}

// authenticator tells who sends a request: by a certificate, or else by a token.
type authenticator struct {
	// roots of clients' certificates; nil: there are none.
	roots   *x509.CertPool
	client  kube.Client
	reviews reviews
	// known are the places of questions about tokens that were good, which strangers cannot
	// hold up.
	known reviews
	// tokens are good ones, each a knownUser. Those that are not have a cache of their own, as strangers can
	// fill it.
	tokens, refused *cache.LRUExpireCache
	clock           clock.PassiveClock
}

func newAuthenticator(roots *x509.CertPool, client kube.Client, r reviews, c clock.PassiveClock) *authenticator {
	return &authenticator{
		roots: roots, client: client, reviews: r, known: newReviews(), clock: c,
		tokens: cache.NewLRUExpireCacheWithClock(cached, c), refused: cache.NewLRUExpireCacheWithClock(cached, c),
	}
}

// authenticate returns nil for somebody unknown. Nobody is anonymous.
func (a *authenticator) authenticate(r *http.Request) (*user, error) {
	u, certificateErr := a.byCertificate(r.TLS)
	if u != nil {
		return u, nil
	}
	token := bearer(r.Header)
	if token == "" {
		return nil, certificateErr
	}
	return a.byToken(r.Context(), token)
}

func (a *authenticator) byCertificate(state *tls.ConnectionState) (*user, error) {
	if a.roots == nil || state == nil || len(state.PeerCertificates) == 0 {
		return nil, nil
	}
	leaf := state.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	// With each request, as connections live longer than some certificates.
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: a.roots, Intermediates: between, CurrentTime: a.clock.Now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, fmt.Errorf("verifying a client's certificate: %w", err)
	}
	if leaf.Subject.CommonName == "" {
		return nil, nil
	}
	return &user{name: leaf.Subject.CommonName, groups: withAuthenticated(leaf.Subject.Organization)}, nil
}

func withAuthenticated(groups []string) []string {
	if slices.Contains(groups, authenticated) {
		return groups
	}
	return append(slices.Clone(groups), authenticated)
}

func bearer(h http.Header) string {
	scheme, token, found := strings.Cut(strings.TrimSpace(h.Get("Authorization")), " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func (a *authenticator) byToken(ctx context.Context, token string) (*user, error) {
	if len(token) > maxToken {
		return nil, errors.New("the token is longer than any")
	}
	// Not the token itself: a cache is no place for secrets.
	key := sha256.Sum256([]byte(token))
	if _, found := a.refused.Get(key); found {
		return nil, nil
	}
	places := a.reviews
	if entry, found := a.tokens.Get(key); found {
		was, _ := entry.(knownUser)
		if a.clock.Now().Before(was.until) {
			return was.user, nil
		}
		places = a.known
	}
	u, err := a.review(ctx, places, token)
	if err != nil {
		return nil, err
	}
	if u == nil {
		a.tokens.Remove(key)
		a.refused.Add(key, true, badTokenTTL)
		return nil, nil
	}
	a.tokens.Add(key, knownUser{user: u, until: a.clock.Now().Add(tokenTTL)}, knownToken)
	return u, nil
}

// knownUser is who has a token, which is asked about again when until is over.
type knownUser struct {
	user  *user
	until time.Time
}

func (a *authenticator) review(ctx context.Context, places reviews, token string) (*user, error) {
	var status authenticationv1.TokenReviewStatus
	err := places.do(ctx, func(ctx context.Context) error {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		answer, err := a.client.TokenReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		status = answer.Status
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reviewing a token: %w", err)
	}
	if !status.Authenticated || status.User.Username == "" {
		return nil, nil
	}
	u := status.User
	return &user{name: u.Username, uid: u.UID, groups: withAuthenticated(u.Groups), extra: u.Extra}, nil
}
