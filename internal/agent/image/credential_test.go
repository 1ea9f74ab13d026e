package image

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestMatchesRegistry(t *testing.T) {
	for _, c := range []struct {
		key, repository string
		want            bool
	}{
		{"r.test", "r.test/a/b", true},
		{"https://r.test", "r.test/a/b", true},
		{"http://r.test/", "r.test/a/b", true},
		{"https://r.test/v1/", "r.test/a/b", true},
		{"r.test/v2/", "r.test/a/b", true},
		{"r.test/a", "r.test/a/b", true},
		{"r.test/a/b", "r.test/a/b", true},
		{"r.test/b", "r.test/a/b", false},
		{"r.test/a/b/c", "r.test/a/b", false},
		{"r.test:5000", "r.test:5000/a", true},
		{"r.test", "r.test:5000/a", false},
		{"r.test:5000", "r.test/a", false},
		{"*.test", "r.test/a", true},
		{"*.test", "x.r.test/a", false},
		{"*.r.test/a", "x.r.test/a/b", true},
		{"r-?.test", "r-1.test/a", true},
		{"r[", "r[/a", false},
		{"*", "r.test/a", false},
		{"", "r.test/a", false},
		{"other.test", "r.test/a", false},
	} {
		if got := matchesRegistry(registryPattern(c.key), c.repository); got != c.want {
			t.Errorf("%q for %s: %t", c.key, c.repository, got)
		}
	}
}

func TestTheMostExactCredentialComesFirst(t *testing.T) {
	ref, err := parseReference("r.test/team/base:v1")
	if err != nil {
		t.Fatal(err)
	}
	offered, err := offer([]corev1.Secret{
		secret("glob", "*.test", "glob", "p"), secret("host", "r.test", "host", "p"), secret("again", "r.test", "host", "p"),
		secret("other", "other.test", "other", "p"), secret("path", "r.test/team", "path", "p"), secret("empty", "r.test", "", ""),
	}, ref)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range offered {
		names = append(names, c.secret.Name)
	}
	if diff := cmp.Diff([]string{"path", "host", "glob"}, names); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSecretsOfBothTypes(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("u:p:with:colons"))
	typed := func(kind corev1.SecretType, key, data string) corev1.Secret {
		s := corev1.Secret{Type: kind, Data: map[string][]byte{key: []byte(data)}}
		s.Namespace, s.Name = "team", "s"
		return s
	}
	for name, c := range map[string]struct {
		secret corev1.Secret
		want   string
		bad    bool
	}{
		"auth":         {typed(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths":{"r.test":{"auth":"`+auth+`"}}}`), "u p:with:colons", false},
		"unpadded":     {typed(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths":{"r.test":{"auth":"`+strings.TrimRight(auth, "=")+`"}}}`), "u p:with:colons", false},
		"auth is last": {typed(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths":{"r.test":{"username":"a","password":"b","auth":"`+auth+`"}}}`), "u p:with:colons", false},
		"old type":     {typed(corev1.SecretTypeDockercfg, corev1.DockerConfigKey, `{"r.test":{"username":"a","password":"b"}}`), "a b", false},
		"no Docker's":  {typed(corev1.SecretTypeOpaque, "a", "b"), "", false},
		"no auths":     {typed(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{}`), "", false},
		"no JSON":      {typed(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `hunter2`), "", true},
		"nothing":      {typed(corev1.SecretTypeDockerConfigJson, "other", `{}`), "", true},
		"no base64":    {typed(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths":{"r.test":{"auth":"hunter2!"}}}`), "", true},
		"no colon":     {typed(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths":{"r.test":{"auth":"aHVudGVyMg=="}}}`), "", true},
	} {
		offered, err := offer([]corev1.Secret{c.secret}, reference{"r.test/a", ":v1"})
		var bad *secretError
		if errors.As(err, &bad) != c.bad || err != nil && (strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "team/s")) {
			t.Errorf("%s: %v", name, err)
		}
		got := ""
		for _, o := range offered {
			got += o.username + " " + o.password
			if text := fmt.Sprintf("%v %+v %#v", o, o, o); strings.Contains(text, o.password) {
				t.Errorf("%s: printed as %s", name, text)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A Secret that is none does no harm where no credential is needed.
func TestABadSecretMattersOnlyToAPull(t *testing.T) {
	h := newHost()
	h.here(base, 1, gb)
	bad := secret("bad", "r.test", "u", "p")
	bad.Data[corev1.DockerConfigJsonKey] = []byte("{")
	s := New(options(t, h))
	if _, err := s.Ensure(t.Context(), Request{Ref: base, PullSecrets: []corev1.Secret{bad}}); err != nil {
		t.Error(err)
	}
	var refused *secretError
	if _, err := s.Ensure(t.Context(), Request{Ref: base, Policy: corev1.PullAlways, PullSecrets: []corev1.Secret{bad}}); !errors.As(err, &refused) || len(h.pulled()) != 0 {
		t.Errorf("%v, pulls %v", err, h.pulled())
	}
}

// tenants ask for one private image that is on the host.
func TestAPrivateImageIsForThoseWhoProveIt(t *testing.T) {
	const password = "right password"
	owner := secret("owner", "r.test", "u", password)
	for name, c := range map[string]struct {
		pod    Request
		before func(h *fakeHost, o Options)
		pulls  int
		err    bool
	}{
		"the owner":                    {pod: Request{PullSecrets: []corev1.Secret{owner}}},
		"the owner, never":             {pod: Request{PullSecrets: []corev1.Secret{owner}, Policy: corev1.PullNever}},
		"another Secret of the same":   {pod: Request{PullSecrets: []corev1.Secret{secret("copy", "r.test", "u", password)}}},
		"the same Secret, new content": {pod: Request{PullSecrets: []corev1.Secret{secret("owner", "r.test", "u", "rotated")}}},
		"nobody":                       {pod: Request{}, pulls: 1, err: true},
		"nobody, never":                {pod: Request{Policy: corev1.PullNever}, err: true},
		"another credential":           {pod: Request{PullSecrets: []corev1.Secret{secret("b", "r.test", "b", "wrong")}}, pulls: 2, err: true},
		"for another registry":         {pod: Request{PullSecrets: []corev1.Secret{secret("owner", "other.test", "u", password)}}, pulls: 1, err: true},
		"under another name": {
			pod:   Request{Ref: "r.test/macos/base@" + sha(1)},
			pulls: 1, err: true,
		},
		"now public": {pod: Request{}, before: func(h *fakeHost, _ Options) { h.publish(base, 1, gb, "") }, pulls: 1},
		"the record is lost": {
			pod: Request{}, pulls: 1, err: true,
			before: func(_ *fakeHost, o Options) {
				_ = os.WriteFile(filepath.Join(o.Dir, "images.json"), []byte("garbage"), 0o600)
			},
		},
		"the record is of another schema": {
			pod: Request{}, pulls: 1, err: true,
			before: func(_ *fakeHost, o Options) {
				_ = os.WriteFile(filepath.Join(o.Dir, "images.json"), []byte(`{"schema":"v9"}`), 0o600)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost()
			h.publish(base, 1, gb, password)
			o := options(t, h)
			if _, err := New(o).Ensure(t.Context(), Request{Ref: base, PullSecrets: []corev1.Secret{owner}}); err != nil {
				t.Fatal(err)
			}
			kept, err := os.ReadFile(filepath.Join(o.Dir, "images.json"))
			if err != nil || strings.Contains(string(kept), password) {
				t.Errorf("kept %s, %v", kept, err)
			}
			if c.before != nil {
				c.before(h, o)
			}
			if c.pod.Ref == "" {
				c.pod.Ref = base
			}
			// Another life of the agent.
			_, err = New(o).Ensure(t.Context(), c.pod)
			if got := len(h.pulled()) - 1; (err != nil) != c.err || got != c.pulls {
				t.Errorf("%v after %d pulls, want %d: %v", err, got, c.pulls, h.pulled())
			}
			if err != nil {
				return
			}
			// What was proved once is known.
			c.pod.Policy = corev1.PullNever
			if _, err := New(o).Ensure(t.Context(), c.pod); err != nil {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// An image that was here before anybody pulled is everybody's, as a kubelet has it.
func TestAnImageOfTheHostIsEverybodys(t *testing.T) {
	h := newHost()
	h.publish(base, 1, gb, "secret")
	h.here(base, 1, gb)
	if _, err := New(options(t, h)).Ensure(t.Context(), Request{Ref: base}); err != nil {
		t.Error(err)
	}
	// Also after somebody tried the registry with a wrong credential.
	o := options(t, h)
	s := New(o)
	wrong := Request{Ref: base, Policy: corev1.PullAlways, PullSecrets: []corev1.Secret{secret("a", "r.test", "u", "wrong")}}
	if _, err := s.Ensure(t.Context(), wrong); err == nil {
		t.Error("a wrong credential worked")
	}
	if _, err := New(o).Ensure(t.Context(), Request{Ref: base}); err != nil {
		t.Error(err)
	}
}
