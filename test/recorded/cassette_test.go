package recorded

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// cassette is a recording, in either version of the recorder's format.
type cassette struct {
	Interactions []exchange `json:"interactions"`
}

type exchange struct {
	Request struct {
		Method string `json:"method"`
		URL    string `json:"url"`
		Body   string `json:"body"`
	} `json:"request"`
	Response struct {
		Code    int         `json:"code"`
		Headers http.Header `json:"headers"`
		Body    string      `json:"body"`
	} `json:"response"`
}

// recordings is the folder of the recordings; a test without one is skipped.
func recordings(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("MACFLEET_RECORDINGS")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "recordings")
	}
	if _, err := os.Stat(folder); err != nil {
		t.Skip("absent: no recordings; MACFLEET_RECORDINGS names their folder")
	}
	return folder
}

func load(t *testing.T, path string) cassette {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c cassette
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if len(c.Interactions) == 0 {
		t.Fatalf("%s holds no exchange", path)
	}
	return c
}

func (e exchange) at(t *testing.T) time.Time {
	t.Helper()
	at, err := time.Parse(http.TimeFormat, e.Response.Headers.Get("Date"))
	if err != nil {
		t.Fatalf("date of %s %s: %v", e.Request.Method, e.Request.URL, err)
	}
	return at
}

// path is the URL without its host.
func (e exchange) path(t *testing.T) string {
	t.Helper()
	parsed, err := url.Parse(e.Request.URL)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.RequestURI()
}

// server is what a recorded answer says of a server, if it is about one.
type server struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Status    string    `json:"status"`
	VPC       string    `json:"vpc_status"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

func (e exchange) server() (server, bool) {
	var s server
	if !strings.Contains(e.Request.URL, "/servers") || e.Response.Code != http.StatusOK {
		return s, false
	}
	err := json.Unmarshal([]byte(e.Response.Body), &s)
	return s, err == nil && s.Status != ""
}

// delays are how long the transitions in a recording took; zero for none.
type delays struct {
	serverType            string
	delivery, reboot, vpc time.Duration
}

// measure reads the delays off a recording.
func (c cassette) measure(t *testing.T) delays {
	t.Helper()
	var d delays
	var before server
	var beforeAt, starting, rebooting, updating time.Time
	for _, e := range c.Interactions {
		s, fine := e.server()
		if !fine {
			continue
		}
		at := e.at(t)
		switch {
		case s.Status == "starting" && before.Status == "":
			starting, d.serverType = at, s.Type
		case s.Status == "rebooting" && before.Status != "rebooting":
			rebooting = at
		case s.Status == "ready" && before.Status == "starting":
			d.delivery = transition(starting, beforeAt, at, s)
		case s.Status == "ready" && before.Status == "rebooting":
			d.reboot = transition(rebooting, beforeAt, at, s)
		case s.VPC == "vpc_updating" && before.VPC != "vpc_updating":
			updating = at
		case s.VPC != "vpc_updating" && before.VPC == "vpc_updating":
			d.vpc = transition(updating, beforeAt, at, s)
		}
		before, beforeAt = s, at
	}
	return d
}

// transition is a delay that ended between two looks: at updated_at where that
// lies between them, else in the middle.
func transition(begun, lastLook, look time.Time, s server) time.Duration {
	if s.UpdatedAt.After(lastLook) && !s.UpdatedAt.After(look) {
		return s.UpdatedAt.Sub(begun)
	}
	return lastLook.Add(look.Sub(lastLook) / 2).Sub(begun)
}

// organization is the one that a recording was made in.
func (c cassette) organization() string {
	const mark = `"organization_id":"`
	for _, e := range c.Interactions {
		if i := strings.Index(e.Response.Body, mark); i >= 0 {
			return e.Response.Body[i+len(mark):][:36]
		}
	}
	return ""
}

func files(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*.cassette.yaml"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no recording in %s: %v", folder, err)
	}
	slices.Sort(found)
	return found
}
