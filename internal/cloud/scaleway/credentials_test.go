package scaleway_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/scaleway"
)

const (
	newSecretKey = "7363616c-6577-6573-6862-6f7579616162"
	otherProject = "205bdce1-64c0-48ab-899d-868455867ecf"
)

// rotation is a mounted Secret, a client that reads it, and what that sends and says.
type rotation struct {
	dir    string
	clock  *clocktesting.FakeClock
	client *scaleway.Client

	mu     sync.Mutex
	tokens []string
	hosts  []string
	said   []string
	// refuse the calls.
	refuse bool
}

func rotate(t *testing.T) *rotation {
	t.Helper()
	r := &rotation{dir: t.TempDir(), clock: clocktesting.NewFakeClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))}
	r.mount(t, map[string]string{"SCW_ACCESS_KEY": accessKey, "SCW_SECRET_KEY": secretKey, "SCW_DEFAULT_PROJECT_ID": projectID + "\n"})
	client, err := scaleway.New(scaleway.Options{
		Source: scaleway.Directory(r.dir), Clock: r.clock, QPS: 1e6,
		HTTPClient: &http.Client{Transport: roundTripper(r.answer)},
		Log:        funcr.New(func(_, args string) { r.said = append(r.said, args) }, funcr.Options{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.client = client
	return r
}

func (r *rotation) answer(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = append(r.tokens, request.Header.Get("X-Auth-Token"))
	r.hosts = append(r.hosts, request.URL.Host)
	if r.refuse {
		return respond(401, `{"message":"authentication is denied","method":"api_key","reason":"not_found","type":"denied_authentication"}`), nil
	}
	return respond(200, serverBody(nil)), nil
}

// mount replaces all files at once, as the kubelet does.
func (r *rotation) mount(t *testing.T, values map[string]string) {
	t.Helper()
	version, err := os.MkdirTemp(r.dir, "..version")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range values {
		if err := os.WriteFile(filepath.Join(version, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Symlink(filepath.Join("..data", name), filepath.Join(r.dir, name))
	}
	link := filepath.Join(r.dir, "..data_tmp")
	if err := os.Symlink(filepath.Base(version), link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(r.dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

func (r *rotation) call(t *testing.T) {
	t.Helper()
	if _, _, err := r.client.GetServer(context.Background(), zone, serverID); err != nil {
		t.Fatal(err)
	}
}

func TestRotatedCredentialsAreUsedWithoutARestart(t *testing.T) {
	r := rotate(t)
	r.call(t)
	r.mount(t, map[string]string{"SCW_ACCESS_KEY": accessKey, "SCW_SECRET_KEY": newSecretKey, "SCW_DEFAULT_PROJECT_ID": projectID, "SCW_API_URL": "https://other.example.com"})
	r.call(t) // too soon to look again
	r.clock.Step(5 * time.Second)
	r.call(t)
	r.clock.Step(5 * time.Second)
	r.call(t)
	if diff := cmp.Diff([]string{secretKey, secretKey, newSecretKey, newSecretKey}, r.tokens); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"api.scaleway.com", "api.scaleway.com", "other.example.com", "other.example.com"}, r.hosts); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if len(r.said) != 1 || strings.Contains(r.said[0], newSecretKey) {
		t.Errorf("said %q, want one line without the key", r.said)
	}
}

// A refusal says which key it is of: who replaces it sees whether the new one was read. What the
// keys are is in no text.
func TestARefusalTellsOneKeyFromTheNext(t *testing.T) {
	r := rotate(t)
	r.refuse = true
	values := func(secret string) map[string]string {
		return map[string]string{"SCW_ACCESS_KEY": accessKey, "SCW_SECRET_KEY": secret, "SCW_DEFAULT_PROJECT_ID": projectID}
	}
	for _, step := range []struct{ secret, want string }{
		{secretKey, "this key was read at 2026-11-21T12:00:00Z"},
		{newSecretKey, "this key was read at 2026-11-21T12:00:05Z"},
		{newSecretKey, "this key was read at 2026-11-21T12:00:05Z"},
		{"hunter2", "this key was read at 2026-11-21T12:00:05Z, and what is there now is not used: SCW_SECRET_KEY is malformed: it must be a UUID"},
		{newSecretKey, "this key was read at 2026-11-21T12:00:05Z"},
		{secretKey, "this key was read at 2026-11-21T12:00:25Z"},
	} {
		r.mount(t, values(step.secret))
		_, _, err := r.client.GetServer(context.Background(), zone, serverID)
		if got := cloud.KeyOf(err); !cloud.IsUnauthorized(err) || got != step.want {
			t.Errorf("%v, and of the key: %q, want %q", err, got, step.want)
		}
		r.clock.Step(5 * time.Second)
	}
}

func TestCredentialsThatCannotBeUsedLeaveTheOldOnes(t *testing.T) {
	for name, row := range map[string]struct {
		values map[string]string
		says   string
	}{
		"malformed":       {map[string]string{"SCW_ACCESS_KEY": accessKey, "SCW_SECRET_KEY": "hunter2", "SCW_DEFAULT_PROJECT_ID": projectID}, "SCW_SECRET_KEY is malformed"},
		"missing":         {map[string]string{"SCW_ACCESS_KEY": accessKey, "SCW_DEFAULT_PROJECT_ID": projectID}, "SCW_SECRET_KEY is not set"},
		"emptied":         {nil, "SCW_ACCESS_KEY is not set"},
		"huge":            {map[string]string{"SCW_ACCESS_KEY": strings.Repeat("x", 1<<20)}, "SCW_ACCESS_KEY is malformed"},
		"another project": {map[string]string{"SCW_ACCESS_KEY": accessKey, "SCW_SECRET_KEY": newSecretKey, "SCW_DEFAULT_PROJECT_ID": otherProject}, "another project has other hosts"},
		"in clear text":   {map[string]string{"SCW_ACCESS_KEY": accessKey, "SCW_SECRET_KEY": newSecretKey, "SCW_DEFAULT_PROJECT_ID": projectID, "SCW_API_URL": "http://example.com"}, "SCW_API_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rotate(t)
			r.mount(t, row.values)
			for range 3 {
				r.clock.Step(5 * time.Second)
				r.call(t)
			}
			if diff := cmp.Diff([]string{secretKey, secretKey, secretKey}, r.tokens); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			if said := strings.Join(r.said, "\n"); len(r.said) != 1 || !strings.Contains(said, row.says) || strings.Contains(said, newSecretKey) || strings.Contains(said, "hunter2") {
				t.Errorf("said %q, want one line with %q and no key", r.said, row.says)
			}
			r.mount(t, map[string]string{"SCW_ACCESS_KEY": accessKey, "SCW_SECRET_KEY": newSecretKey, "SCW_DEFAULT_PROJECT_ID": projectID})
			r.clock.Step(5 * time.Second)
			r.call(t)
			if last := r.tokens[len(r.tokens)-1]; last != newSecretKey {
				t.Error("values that are right again are not used")
			}
		})
	}
}

func TestADirectoryThatIsNotThere(t *testing.T) {
	_, err := scaleway.New(scaleway.Options{Source: scaleway.Directory(filepath.Join(t.TempDir(), "none"))})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestWorkersShareARotation(t *testing.T) {
	r := rotate(t)
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Go(func() {
			for range 20 {
				if _, _, err := r.client.GetServer(context.Background(), zone, serverID); err != nil {
					t.Error(err)
				}
				if i == 0 {
					r.clock.Step(time.Second)
				}
			}
		})
	}
	r.mount(t, map[string]string{"SCW_ACCESS_KEY": accessKey, "SCW_SECRET_KEY": newSecretKey, "SCW_DEFAULT_PROJECT_ID": projectID})
	workers.Wait()
	r.clock.Step(5 * time.Second)
	r.call(t)
	if last := r.tokens[len(r.tokens)-1]; last != newSecretKey {
		t.Error("the new key is not used")
	}
}
