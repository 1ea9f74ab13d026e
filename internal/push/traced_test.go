package push

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/tracing"
	"github.com/macfleet/macfleet/internal/tracing/tracingtest"
)

// failing is a Mac on which nothing works, and the way to it. Its errors tell all that they were given.
type failing struct{ Mac }

func (f failing) Dial(context.Context, Target) (Mac, error) { return f, nil }

func (failing) Grant(_ context.Context, password cloud.Password) error { return told(password) }

func (failing) Converge(_ context.Context, desired document.Desired, signer *document.Signer) (document.Report, error) {
	steps := []document.StepReport{{Name: "session", Outcome: document.Failed, Class: document.Retry, Detail: "refused"}}
	return document.Report{Steps: steps}, told(desired, signer)
}

func (failing) Plan(_ context.Context, desired document.Desired) (document.Report, error) {
	return document.Report{}, told(desired)
}

func (failing) Leave(_ context.Context, signer *document.Signer) error { return told(signer) }

// told is an error that prints what it is given, in each of the ways that fmt has.
func told(given ...any) error {
	err := errors.New("refused")
	for _, g := range given {
		err = fmt.Errorf("%w: %v, %+v, %#v, %q", err, g, g, g, g)
	}
	return err
}

// What goes to a Mac stands in no span, also where an error says all that it knows.
func TestSpansHoldNoSecret(t *testing.T) {
	const console, token = "pass-word-1", "abcdef.0123456789abcdef"
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
	password, _ := cloud.NewPassword(console)
	desired := document.Desired{Join: &document.Join{Token: token}, Secrets: &document.Secrets{ConsolePassword: console}}
	signer := document.NewSigner(key, document.Host{}, time.Now)

	collector := tracingtest.Start(t)
	tracer, stop, err := tracing.New(t.Context(), collector.URL, "v1")
	if err != nil {
		t.Fatal(err)
	}
	mac, err := Traced(failing{}, tracer).Dial(t.Context(), Target{Address: "10.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	granted := mac.Grant(t.Context(), password)
	_, converged := mac.Converge(t.Context(), desired, signer)
	_, planned := mac.Plan(t.Context(), desired)
	left := mac.Leave(t.Context(), signer)
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	failed := map[string]string{}
	for _, s := range collector.Spans() {
		failed[s.Name] = s.Failed
	}
	for name, want := range map[string]error{"ssh grant": granted, "ssh converge": converged, "ssh plan": planned, "ssh leave": left} {
		if want == nil || failed[name] != want.Error() {
			t.Errorf("%s failed with %q, and its span says %q", name, want, failed[name])
		}
	}
	if tree := collector.Tree(); !slices.Contains(tree, "ssh dial") || !slices.Contains(tree, "ssh converge > mac/session") {
		t.Errorf("spans: %q", tree)
	}
	decimal := strings.Trim(fmt.Sprint(key.Seed()), "[]")
	for name, secret := range map[string]string{"password": console, "token": token, "key": string(key.Seed()), "key in numbers": decimal} {
		if at := collector.Holds(secret); at != "" {
			t.Errorf("the span %s holds the %s", at, name)
		}
	}
}
