package image

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// secretID says which Secret a credential is from.
type secretID struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

func (id secretID) String() string { return id.Namespace + "/" + id.Name }

// credential for a registry, and where it is from. The zero value is none.
type credential struct {
	secret             secretID
	username, password string
}

// String keeps the credential out of logs.
func (c credential) String() string { return "(credential of " + c.secret.String() + ")" }

// GoString does as well.
func (c credential) GoString() string { return c.String() }

func (c credential) none() bool { return c.username == "" && c.password == "" }

// login is what the driver is given, nil for none.
func (c credential) login() *vm.Credential {
	if c.none() {
		return nil
	}
	return &vm.Credential{Username: c.username, Password: c.password}
}

// entry of a Docker configuration.
type dockerEntry struct {
	Username string `json:"username"`
	Password string `json:"password"`
	// Auth is base64 of username:password and comes before both.
	Auth string `json:"auth"`
}

// offer returns the credentials for an image that Secrets hold: longest path first,
// then hosts without patterns, then the Secrets' order. It goes on after a Secret
// that is none and returns its *secretError.
func offer(secrets []corev1.Secret, ref reference) ([]credential, error) {
	type match struct {
		pattern string
		credential
	}
	var matches []match
	var firstErr error
	for _, secret := range secrets {
		entries, problem := dockerEntries(secret)
		if problem != "" && firstErr == nil {
			firstErr = &secretError{Namespace: secret.Namespace, Name: secret.Name, Problem: problem}
		}
		id := secretID{Namespace: secret.Namespace, Name: secret.Name, UID: string(secret.UID)}
		for _, key := range sortedKeys(entries) {
			pattern := registryPattern(key)
			if e := entries[key]; matchesRegistry(pattern, ref.repository) && (e.Username != "" || e.Password != "") {
				matches = append(matches, match{pattern, credential{secret: id, username: e.Username, password: e.Password}})
			}
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return comparePatterns(a.pattern, b.pattern) })
	var offered []credential
	for _, m := range matches {
		if !slices.ContainsFunc(offered, func(c credential) bool { return c.username == m.username && c.password == m.password }) {
			offered = append(offered, m.credential)
		}
	}
	return offered, firstErr
}

func sortedKeys(entries map[string]dockerEntry) []string {
	var keys []string
	for key := range entries {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// dockerEntries reads a Secret of one of the two Docker types. What is wrong with it
// is said without a word of its content.
func dockerEntries(secret corev1.Secret) (map[string]dockerEntry, string) {
	entries := map[string]dockerEntry{}
	var err error
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		var config struct {
			Auths map[string]dockerEntry `json:"auths"`
		}
		err = json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &config)
		entries = config.Auths
	case corev1.SecretTypeDockercfg:
		err = json.Unmarshal(secret.Data[corev1.DockerConfigKey], &entries)
	}
	if err != nil {
		return nil, "is no Docker configuration: it is not the JSON that kubectl create secret docker-registry makes"
	}
	for key, e := range entries {
		if e.Auth == "" {
			continue
		}
		var ok bool
		if e.Username, e.Password, ok = decodeAuth(e.Auth); !ok {
			return nil, "has an auth that is not base64 of username:password"
		}
		entries[key] = e
	}
	return entries, ""
}

func decodeAuth(auth string) (username, password string, ok bool) {
	encoding := base64.StdEncoding
	if !strings.HasSuffix(strings.TrimSpace(auth), "=") && len(strings.TrimSpace(auth))%4 != 0 {
		encoding = base64.RawStdEncoding
	}
	data, err := encoding.DecodeString(strings.TrimSpace(auth))
	if err != nil {
		return "", "", false
	}
	return strings.Cut(strings.TrimRight(string(data), "\x00\n"), ":")
}

// registryPattern is a key of a Docker configuration as host or host/path. The
// paths of the registries' API stand for the whole host.
func registryPattern(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, rest, _ := strings.Cut(key, "/")
	if rest == "v1" || rest == "v2" || strings.HasPrefix(rest, "v1/") || strings.HasPrefix(rest, "v2/") {
		return host
	}
	return strings.TrimSuffix(key, "/")
}

// matchesRegistry compares part by part of the host, which may have patterns of
// package path; ports must be equal, and the path is a prefix.
func matchesRegistry(pattern, repository string) bool {
	wantHost, wantPath, _ := strings.Cut(pattern, "/")
	host, repositoryPath, _ := strings.Cut(repository, "/")
	if !strings.HasPrefix(repositoryPath, wantPath) {
		return false
	}
	want, got := splitHost(wantHost), splitHost(host)
	if want.port != got.port || len(want.parts) != len(got.parts) {
		return false
	}
	for i, p := range want.parts {
		if ok, err := path.Match(p, got.parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

type hostParts struct {
	parts []string
	port  string
}

func splitHost(host string) hostParts {
	u := url.URL{Host: host}
	return hostParts{parts: strings.Split(u.Hostname(), "."), port: u.Port()}
}

// comparePatterns puts the more exact first.
func comparePatterns(a, b string) int {
	hostA, pathA, _ := strings.Cut(a, "/")
	hostB, pathB, _ := strings.Cut(b, "/")
	if d := len(pathB) - len(pathA); d != 0 {
		return d
	}
	return strings.Count(hostA, "*") + strings.Count(hostA, "?") + strings.Count(hostA, "[") -
		strings.Count(hostB, "*") - strings.Count(hostB, "?") - strings.Count(hostB, "[")
}
