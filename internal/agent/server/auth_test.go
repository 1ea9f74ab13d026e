package server

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestWhoIsKnown(t *testing.T) {
	b := newBench(t, nil)
	b.api.may = append(b.api.may, "admin get healthz")
	other := newAuthority(t)
	expired := b.ca.issue(func(c *x509.Certificate) {
		c.Subject, c.NotAfter = pkix.Name{CommonName: "admin"}, time.Now().Add(-time.Minute)
	})
	serving := b.ca.issue(func(c *x509.Certificate) {
		c.Subject, c.ExtKeyUsage = pkix.Name{CommonName: "admin"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	const stranger = "Unauthorized"
	b.expect(b.client(), "/healthz", "", http.StatusUnauthorized, stranger)
	b.expect(b.client(), "/healthz", "bad", http.StatusUnauthorized, stranger)
	b.expect(b.client(), "/healthz", strings.Repeat("x", 100<<10), http.StatusUnauthorized, stranger)
	b.expect(b.client(other.client("admin")), "/healthz", "", http.StatusUnauthorized, stranger)
	b.expect(b.client(expired), "/healthz", "", http.StatusUnauthorized, stranger)
	b.expect(b.client(serving), "/healthz", "", http.StatusUnauthorized, stranger)
	b.expect(b.client(b.ca.client("")), "/healthz", "", http.StatusUnauthorized, stranger)
	b.expect(b.client(), "/healthz", "good", http.StatusOK, "ok")
	b.expect(b.client(other.client("admin")), "/healthz", "good", http.StatusOK, "ok")
	b.expect(b.client(b.ca.client("admin", "system:masters")), "/healthz", "", http.StatusOK, "ok")
	if !slices.Equal(b.api.groups, []string{"system:masters", "system:authenticated"}) {
		t.Errorf("groups %q", b.api.groups)
	}
}

// A head is read before it is known who sends it. Long commands fit in.
func TestLongHeads(t *testing.T) {
	b := newBench(t, nil)
	b.expect(b.client(), "/healthz?"+strings.Repeat("x", maxHeaderBytes-(4<<10)), "good", http.StatusOK, "ok")
	code, _ := b.send(b.client(), http.MethodGet, "/healthz?"+strings.Repeat("x", maxHeaderBytes+(8<<10)), "good")
	if code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %d", code)
	}
}

func TestWithoutClientCANobodyHasACertificate(t *testing.T) {
	b := newBench(t, nil)
	b.server.authn.roots = nil
	b.expect(b.client(b.ca.client("alice")), "/healthz", "", http.StatusUnauthorized, "Unauthorized")
}

func TestReviewsAreCached(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	b := newBench(t, clock)
	ask := func(token string, code, tokens, access int) {
		t.Helper()
		if got, text := b.send(b.client(), http.MethodGet, "/pods", token); got != code {
			t.Errorf("%d %s, want %d", got, text, code)
		}
		if b.api.count("token") != tokens || b.api.count("access") != access {
			t.Errorf("asked for %d tokens and %d accesses, want %d and %d", b.api.count("token"), b.api.count("access"), tokens, access)
		}
	}
	ask("good", http.StatusOK, 1, 2)
	ask("good", http.StatusOK, 1, 2)
	// A token that was revoked is good until it is asked about again.
	b.api.set(func() { delete(b.api.tokens, "good") })
	clock.Step(tokenTTL - time.Second)
	ask("good", http.StatusOK, 1, 3)
	clock.Step(2 * time.Second)
	ask("good", http.StatusUnauthorized, 2, 3)
	ask("good", http.StatusUnauthorized, 2, 3)
	clock.Step(badTokenTTL + time.Second)
	b.api.set(func() { b.api.tokens["good"] = "alice" })
	ask("good", http.StatusOK, 3, 3)
	// Of pods it is refused, and asked about after half a minute; of proxy it is allowed
	// for five.
	b.api.set(func() { b.api.may = nil })
	clock.Step(refusedTTL + time.Second)
	ask("good", http.StatusOK, 3, 4)
	clock.Step(allowedTTL)
	ask("good", http.StatusForbidden, 4, 6)
}

func TestFailedReviewsAreNotCached(t *testing.T) {
	b := newBench(t, nil)
	b.api.set(func() { b.api.failing = true })
	b.expect(b.client(), "/pods", "good", http.StatusUnauthorized, "Unauthorized")
	b.expect(b.client(b.ca.client("alice")), "/pods", "", http.StatusInternalServerError, "Authorization error (user=alice, verb=get, resource=nodes, subresource=pods)")
	b.api.set(func() { b.api.failing = false })
	b.expect(b.client(), "/pods", "good", http.StatusOK, `"kind":"PodList"`)
}

// An authorizer that denies has the last word, whatever stands beside it.
func TestADenialIsNoAllowance(t *testing.T) {
	b := newBench(t, nil)
	b.api.denied = []string{"alice get proxy"}
	b.expect(b.client(), "/containerLogs/ci/build/main", "good", http.StatusForbidden, "Forbidden")
}

func TestWhoMay(t *testing.T) {
	for _, c := range []struct {
		method, path, verb string
		subresources       string
	}{
		{"GET", "/healthz", "get", "healthz proxy"},
		{"GET", "/pods", "get", "pods proxy"},
		{"GET", "/pods/", "get", "pods proxy"},
		{"GET", "/runningpods/", "get", "pods proxy"},
		{"GET", "/configz", "get", "configz proxy"},
		{"GET", "/stats/summary", "get", "stats"},
		{"GET", "/metrics", "get", "metrics"},
		{"GET", "/metrics/resource", "get", "metrics"},
		{"GET", "/logs/", "get", "log"},
		{"GET", "/containerLogs/ci/build/main", "get", "proxy"},
		{"GET", "/exec/ci/build/main", "create", "proxy"},
		{"POST", "/exec/ci/build/main", "create", "proxy"},
		{"GET", "/exec/ci/build/uid/main", "create", "proxy"},
		{"GET", "/attach/ci/build/main", "create", "proxy"},
		{"GET", "/run/ci/build/main", "create", "proxy"},
		{"GET", "/portForward/ci/build", "create", "proxy"},
		{"GET", "/portForward/ci/build/uid", "create", "proxy"},
		{"DELETE", "/pods", "delete", "pods proxy"},
		{"HEAD", "/pods", "", "pods proxy"},
		{"GET", "/", "get", "proxy"},
		{"GET", "/metricsx", "get", "proxy"},
	} {
		r := routeOf(c.method, c.path)
		if r.verb != c.verb || strings.Join(r.subresources, " ") != c.subresources {
			t.Errorf("%s %s: %s %v", c.method, c.path, r.verb, r.subresources)
		}
	}
}

// No path leads to a command in a guest but those that need "create".
func TestNoOtherWayToExec(t *testing.T) {
	for _, path := range []string{
		"//exec/ci/build/main", "/pods/../exec/ci/build/main", "/metrics/../exec/ci/build/main", "exec/ci/build/main", "/Exec/ci/build/main",
		"/exec//build/main/x/y", "/exec/ci/build", "/exec/a/b/c/d/e", "/containerLogs", "/containerLogs/", "/exec", "/portForward", "/run/", "/",
	} {
		if r := routeOf("GET", path); r.kind != kindUnknown && r.verb != "create" {
			t.Errorf("%s is %s with %s", path, r.kind, r.verb)
		}
	}
	b := newBench(t, nil)
	b.api.may = []string{"alice get proxy"}
	for _, path := range []string{"/exec/ci/build/main?command=id&output=1", "/attach/ci/build/main?output=1", "/run/ci/build/main?cmd=id", "/portForward/ci/build?port=1"} {
		b.expect(b.client(), path, "good", http.StatusForbidden, "Forbidden (user=alice, verb=create, resource=nodes, subresource(s)=[proxy])\n")
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	b := newBench(t, nil)
	b.expect(b.client(), "/nothing", "good", http.StatusNotFound, "404: Page Not Found")
	b.expect(b.client(), "/run/ci/build/main", "good", http.StatusMethodNotAllowed, "405: Method Not Allowed")
	if code, _ := b.send(b.client(), http.MethodPost, "/pods", "good"); code != http.StatusMethodNotAllowed {
		t.Errorf("POST of pods: %d", code)
	}
	b.expect(b.client(), "/nothing", "", http.StatusUnauthorized, "Unauthorized")
}

// Tokens that strangers invent push no known one out.
func TestInventedTokensCostNobodyAReview(t *testing.T) {
	b := newBench(t, nil)
	b.expect(b.client(), "/healthz", "good", http.StatusOK, "ok")
	for i := range cached + 1 {
		if u, err := b.server.authn.byToken(t.Context(), fmt.Sprint("invented ", i)); u != nil || err != nil {
			t.Fatal(u, err)
		}
	}
	before := b.api.count("token")
	b.expect(b.client(), "/healthz", "good", http.StatusOK, "ok")
	if now := b.api.count("token"); now != before {
		t.Errorf("a good token was asked about again: %d reviews, %d before", now, before)
	}
}

// Nor do they hold up those who are known, however many of them wait.
func TestInventedTokensHoldUpNobodyWhoIsKnown(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	b := newBench(t, clock)
	b.expect(b.client(), "/healthz", "good", http.StatusOK, "ok")
	for range mostReviews {
		b.server.authn.reviews <- struct{}{}
	}
	clock.Step(tokenTTL + time.Second)
	before := b.api.count("token")
	b.expect(b.client(), "/healthz", "good", http.StatusOK, "ok")
	if now := b.api.count("token"); now != before+1 {
		t.Errorf("%d reviews, %d before", now, before)
	}
	// One that is good no more is a stranger's.
	b.api.set(func() { delete(b.api.tokens, "good") })
	clock.Step(tokenTTL + time.Second)
	b.expect(b.client(), "/healthz", "good", http.StatusUnauthorized, "Unauthorized")
	clock.Step(badTokenTTL + time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if u, err := b.server.authn.byToken(ctx, "good"); u != nil || err == nil {
		t.Errorf("a token that was refused has the places of known ones: %+v", u)
	}
}
