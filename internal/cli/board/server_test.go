package board

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// fakeSource has what a test puts into it.
type fakeSource struct {
	changed chan struct{}

	mu      sync.Mutex
	now     *snapshot.Snapshot
	trouble error
}

func (f *fakeSource) Changed() <-chan struct{} { return f.changed }

func (f *fakeSource) Snapshot(context.Context) (*snapshot.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, nil
}

func (f *fakeSource) Trouble(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.trouble
}

func (f *fakeSource) become(s *snapshot.Snapshot, trouble error) {
	f.mu.Lock()
	f.now, f.trouble = s, trouble
	f.mu.Unlock()
	f.changed <- struct{}{}
}

// serve serves a fleet, and returns where.
func serve(t *testing.T) (source *fakeSource, url string) {
	t.Helper()
	return serveFleet(t, busy())
}

func serveFleet(t *testing.T, fleet *snapshot.Snapshot) (source *fakeSource, url string) {
	t.Helper()
	source = &fakeSource{changed: make(chan struct{}, 1), now: fleet}
	server, err := NewServer(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	server.every = time.Millisecond
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return source, server.URL(listener)
}

func get(t *testing.T, url, host string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		request.Host = host
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func body(t *testing.T, answer *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhoMaySeeTheBoard(t *testing.T) {
	_, url := serve(t)
	root := url[:strings.Index(url[len("http://"):], "/")+len("http://")+1]
	for name, c := range map[string]struct {
		url, host string
		want      int
	}{
		"who knows the address":            {url, "", http.StatusOK},
		"who knows the port":               {root, "", http.StatusNotFound},
		"who guesses":                      {root + "AAAA/", "", http.StatusNotFound},
		"a page that gave us its name":     {url, "evil.example", http.StatusMisdirectedRequest},
		"such a page, asking for changes":  {url + "live", "evil.example", http.StatusMisdirectedRequest},
		"a browser that leaves a port out": {url, "127.0.0.1", http.StatusMisdirectedRequest}, // but for port 80
		"the style":                        {url + "style.css", "", http.StatusOK},
		"a file of the program's":          {url + "page.html", "", http.StatusNotFound},
	} {
		answer := get(t, c.url, c.host)
		if answer.StatusCode != c.want {
			t.Errorf("%s: %s", name, answer.Status)
		}
		if text := body(t, answer); c.want != http.StatusOK && strings.Contains(text, "fr-par-1") {
			t.Errorf("%s: sees %q", name, text)
		}
		if policy := answer.Header.Get("Content-Security-Policy"); c.want == http.StatusOK && !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: the page may load %q", name, policy)
		}
	}
	post, err := http.Post(url, "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer post.Body.Close()
	if post.StatusCode != http.StatusNotFound {
		t.Errorf("a POST: %s", post.Status)
	}
}

func TestAStoryOnTheBoard(t *testing.T) {
	_, url := serve(t)
	stranded := busy().Hosts[3].Name
	if text := body(t, get(t, url+"story?kind=host&name="+stranded, "")); !strings.Contains(text, "macfleet host release "+stranded) {
		t.Errorf("the story of a stranded host does not say what to type:\n%s", text)
	}
	if text := body(t, get(t, url+"story?kind=host&name=gone", "")); !strings.Contains(text, "nothing to tell") {
		t.Errorf("the story of no host: %s", text)
	}
}

// updates reads what a page is sent.
func updates(t *testing.T, answer *http.Response) func() map[string]string {
	t.Helper()
	lines := bufio.NewReader(answer.Body)
	return func() map[string]string {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			data, is := strings.CutPrefix(line, "data: ")
			if !is {
				continue
			}
			var sent map[string]string
			if err := json.Unmarshal([]byte(data), &sent); err != nil {
				t.Fatal(err)
			}
			return sent
		}
	}
}

// A page that was just loaded is sent changes alone; one that lost touch is sent all.
func TestThePageChangesAsTheFleetDoes(t *testing.T) {
	source, url := serve(t)
	page := body(t, get(t, url, ""))
	_, after, _ := strings.Cut(page, `data-version="`)
	version, _, _ := strings.Cut(after, `"`)
	fresh := updates(t, get(t, url+"live?version="+version, ""))
	lost := updates(t, get(t, url+"live?version=0", ""))
	if all := lost(); all["tiles"] == "" || all["pool"] == "" {
		t.Errorf("a page that lost touch is sent %d parts", len(all))
	}

	s := busy()
	s.Hosts[1].Status.Server.Type = "M4-XL"
	source.become(s, nil)
	for name, next := range map[string]func() map[string]string{"fresh": fresh, "lost": lost} {
		sent := next()
		if html := sent["host-"+s.Hosts[1].Name]; len(sent) != 1 || !strings.Contains(html, "M4-XL €0.49/h") {
			t.Errorf("%s is sent %q", name, sent)
		}
	}

	source.become(s, errors.New("the API server does not answer"))
	if sent := fresh(); len(sent) != 1 || !strings.Contains(sent["trouble"], "What is shown may be old: the API server does not answer") {
		t.Errorf("when the cluster is lost %q is sent", sent)
	}
	source.become(s, nil)
	if sent := fresh(); len(sent) != 1 || strings.Contains(sent["trouble"], "may be old") {
		t.Errorf("when the cluster is back %q is sent", sent)
	}
}

// With a thousand Macs the page and what it loads are 200 kB at most, as they are sent.
func TestABigFleetIsASmallPage(t *testing.T) {
	fleet := busy()
	for n := len(fleet.Hosts); n < 1000; n++ {
		h := *fleet.Hosts[n%8].DeepCopy()
		h.Name = fmt.Sprintf("fr-par-1-%08x-0000-4000-8000-000000000000", n*2654435761%(1<<32))
		fleet.Hosts = append(fleet.Hosts, h)
	}
	_, url := serveFleet(t, fleet)
	size := 0
	for _, file := range []string{"", "style.css", "live.js"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+file, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Encoding", "gzip") // so that it stays as it was sent
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		size += len(body(t, answer))
		_ = answer.Body.Close()
	}
	if size > 200_000 {
		t.Errorf("%d bytes", size)
	}
}
