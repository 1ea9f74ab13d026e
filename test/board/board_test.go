// Package board looks at the board in a real Chromium: what a person sees, and what the
// keyboard does. BenchmarkFirstPaint measures it with a thousand Macs.
package board

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/cli/board"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

var pictures = flag.String("pictures", "", "a folder that pictures of the board are written to")

// patience bounds each wait for the page, on a machine that does other things.
const patience = 2 * time.Minute

// readable is the contrast that WCAG's level AA wants of a text.
const readable = 4.5

// source has what a test puts into it.
type source struct {
	changed chan struct{}
	mu      sync.Mutex
	now     *snapshot.Snapshot
}

func (f *source) Changed() <-chan struct{}      { return f.changed }
func (f *source) Trouble(context.Context) error { return nil }
func (f *source) Snapshot(context.Context) (*snapshot.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, nil
}

func (f *source) become(s *snapshot.Snapshot) {
	f.mu.Lock()
	f.now = s
	f.mu.Unlock()
	f.changed <- struct{}{}
}

// fleet has one of each trouble, guests on two Macs, and events.
func fleet() *snapshot.Snapshot {
	s := clitest.Fleet()
	for n, guests := range []int{2, 1} {
		mac := s.Machines[n].Name
		s.Nodes = append(s.Nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: mac},
			Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}},
		})
		for g := range guests {
			s.Pods = append(s.Pods, corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: fmt.Sprintf("build-%d%d", n, g)},
				Spec:       corev1.PodSpec{NodeName: mac}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
			})
		}
	}
	for n, reason := range []string{"Reinstalling", "Wiping", "Released"} {
		s.Events = append(s.Events, corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: reason},
			InvolvedObject: corev1.ObjectReference{Kind: "ScalewayAppleSiliconHost", Name: s.Hosts[6].Name},
			Reason:         reason, Message: "the host goes back to the pool", Type: corev1.EventTypeNormal,
			LastTimestamp: clitest.Ago(time.Duration(n+4) * time.Minute),
		})
	}
	return s
}

// thousand is a fleet of a thousand Macs.
func thousand() *snapshot.Snapshot {
	s := fleet()
	for n := len(s.Hosts); n < 1000; n++ {
		h := *s.Hosts[n%8].DeepCopy()
		h.Name = fmt.Sprintf("fr-par-1-%08d-0000-4000-8000-000000000000", n+1)
		s.Hosts = append(s.Hosts, h)
	}
	return s
}

// page is a board in a browser.
type page struct {
	testing.TB

	browser context.Context
	from    *source
	url     string

	mu sync.Mutex
	// heard is what the browser has to say of the page.
	heard []string
}

// open opens a board in a browser.
func open(t testing.TB, s *snapshot.Snapshot) *page {
	t.Helper()
	from := &source{changed: make(chan struct{}, 1), now: s}
	server, err := board.NewServer(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(t.Context(), listener) }()

	options := []chromedp.ExecAllocatorOption{chromedp.Headless, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.WindowSize(1280, 1320)}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium wants another user for it
	}
	allocator, closed := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(closed)
	browser, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	// The first call starts the browser, which ends with that call's context.
	if err := chromedp.Do(browser); err != nil {
		t.Fatalf("starting Chromium: %v: is it installed? Debian: apt-get install chromium", err)
	}
	p := &page{TB: t, browser: browser, from: from, url: server.URL(listener)}
	said := chromedp.Console(browser)
	go func() {
		for message, err := range said {
			if err != nil {
				return
			}
			p.mu.Lock()
			p.heard = append(p.heard, message.String())
			p.mu.Unlock()
		}
	}()
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(p.url), chromedp.WaitVisible(chromedp.CSS("#tiles li")))
	return p
}

func (p *page) complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}

func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	get(p, chromedp.Steps(actions...))
}

func get[T any](p *page, action chromedp.Action[T]) T {
	p.Helper()
	bounded, cancel := context.WithTimeout(p.browser, patience)
	defer cancel()
	value, err := chromedp.Run(bounded, action)
	if err != nil {
		p.Fatal(err)
	}
	return value
}

// ask evaluates an expression on the page.
func ask[T any](p *page, expression string) T {
	p.Helper()
	return get(p, chromedp.Evaluate[T](expression))
}

// await waits until an expression is true on the page.
func (p *page) await(expression string) {
	p.Helper()
	get(p, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(patience)))
}

func (p *page) picture(name string) {
	p.Helper()
	if *pictures == "" {
		return
	}
	image := get(p, chromedp.CaptureScreenshot())
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), image, 0o644); err != nil {
		p.Fatal(err)
	}
}

const shownTiles = `[...document.querySelectorAll("#tiles li")].filter(li => li.checkVisibility()).length`

func TestAPersonLooksAtTheBoard(t *testing.T) {
	s := fleet()
	p := open(t, s)
	if n := ask[int](p, shownTiles); n != len(s.Hosts) {
		t.Errorf("%d tiles are seen, want %d", n, len(s.Hosts))
	}
	if n := ask[int](p, `[...document.querySelectorAll("button")].filter(b => !(b.getAttribute("aria-label") || b.textContent).trim()).length`); n != 0 {
		t.Errorf("%d buttons have no name", n)
	}
	if wide := ask[bool](p, `document.documentElement.scrollWidth > innerWidth`); wide {
		t.Error("the page is wider than its window")
	}
	p.picture("board")

	// A story is a tile's; Escape closes it and leads back.
	stranded := `#tiles [data-name="` + s.Hosts[3].Name + `"]`
	p.do(chromedp.Click(chromedp.CSS(stranded)), chromedp.WaitVisible(chromedp.CSS("#story h2")))
	if told := ask[string](p, `document.querySelector("#told").innerText`); !strings.Contains(told, "macfleet host release "+s.Hosts[3].Name) {
		t.Errorf("the story does not say what to type:\n%s", told)
	}
	p.picture("board-story")
	p.do(chromedp.KeyEvent(kb.Escape))
	p.await(`!document.querySelector("#story").open && document.activeElement.dataset.name === "` + s.Hosts[3].Name + `"`)

	// A change of the tile that has the focus leaves it there.
	next := fleet()
	next.Hosts[3].Status.Server.Type = "M4-XL"
	p.from.become(next)
	p.await(`document.querySelector('` + stranded + `').innerText.includes("M4-XL")`)
	if at := ask[string](p, `document.activeElement.dataset.name || ""`); at != s.Hosts[3].Name {
		t.Errorf("the focus went to %q", at)
	}
	if heard := p.complaints(); len(heard) > 0 {
		t.Errorf("the browser complains: %q", heard)
	}
}

func TestTheKeyboardIsEnough(t *testing.T) {
	s := fleet()
	p := open(t, s)
	p.do(chromedp.KeyEvent("/"), chromedp.KeyEvent("stranded"))
	p.await(shownTiles + ` === 1`)
	p.filter("no such Mac")
	p.await(shownTiles + ` === 0 && document.querySelector("#none").checkVisibility()`)
	p.filter("InUse")
	p.await(shownTiles + ` === 2`)
	first, second := s.Hosts[0].Name, s.Hosts[1].Name
	p.do(chromedp.Focus(chromedp.CSS(`#tiles [data-name="`+first+`"]`)), chromedp.KeyEvent(kb.ArrowRight))
	p.await(`document.activeElement.dataset.name === "` + second + `"`)
	p.do(chromedp.KeyEvent(kb.ArrowRight)) // the others are hidden
	p.await(`document.activeElement.dataset.name === "` + second + `"`)
	p.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.CSS("#story h2")))
}

// filter types another text into the filter.
func (p *page) filter(text string) {
	p.Helper()
	ask[bool](p, `(e => { e.focus(); e.select(); return true })(document.querySelector("#filter"))`)
	p.do(chromedp.KeyEvent(text))
}

// Both schemes can be read: the text differs enough from what it stands on.
func TestLightAndDark(t *testing.T) {
	p := open(t, fleet())
	for _, scheme := range []string{"light", "dark"} {
		p.media(scheme)
		worst := ask[float64](p, contrast)
		if worst < readable {
			t.Errorf("%s: the worst contrast is %.2f, less than %v", scheme, worst, readable)
		}
		p.picture("board-" + scheme)
	}
}

// media has the browser prefer a colour scheme.
func (p *page) media(scheme string) {
	p.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
}

// contrast is the worst of the page, as WCAG computes it.
const contrast = `(() => {
  const parse = c => c.match(/[\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const under = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  let worst = 21;
  for (const e of document.querySelectorAll("body *")) {
    if (!e.checkVisibility() || ![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(under(e))].sort((x, y) => y - x);
    worst = Math.min(worst, (a + 0.05) / (b + 0.05));
  }
  return worst;
})()`

func TestOnAPhone(t *testing.T) {
	p := open(t, fleet())
	p.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	if wide := ask[bool](p, `document.documentElement.scrollWidth > innerWidth`); wide {
		t.Error("the page is wider than a phone")
	}
	p.picture("board-phone")
}

// BenchmarkFirstPaint opens the board of a thousand Macs in a tab that is empty: 300 ms are allowed, and 200 kB.
func BenchmarkFirstPaint(b *testing.B) {
	p := open(b, thousand())
	call(p, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	var paints []float64
	var bytes float64
	worked := p.worked()
	for b.Loop() {
		p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(p.url), chromedp.WaitVisible(chromedp.CSS("#tiles li"))) // the same process draws it each time, of files that it may not keep
		p.await(`performance.getEntriesByName("first-contentful-paint").length > 0`)
		paints = append(paints, ask[float64](p, `performance.getEntriesByName("first-contentful-paint")[0].startTime`))
		bytes = max(bytes, ask[float64](p, `performance.getEntriesByType("navigation")[0].transferSize + performance.getEntriesByType("resource").reduce((n, r) => n + r.transferSize, 0)`))
	}
	slices.Sort(paints)
	b.ReportMetric(paints[len(paints)/2], "ms-to-first-paint-median")
	b.ReportMetric(paints[len(paints)-1], "ms-longest")
	b.ReportMetric((p.worked()-worked)/float64(b.N), "ms-of-processor")
	b.ReportMetric(bytes, "bytes")
}

// worked is how long the page's thread has had a processor, in milliseconds.
func (p *page) worked() float64 {
	p.Helper()
	for _, m := range call(p, performance.GetMetrics, cdp.Empty{}).Metrics {
		if m.Name == "TaskDuration" {
			return 1000 * m.Value
		}
	}
	p.Fatal("Chromium does not say how long the page's thread has worked")
	return 0
}

// call calls the browser itself.
func call[P, R any](p *page, command cdp.Command[P, R], params P) R {
	p.Helper()
	bounded, cancel := context.WithTimeout(p.browser, patience)
	defer cancel()
	result, err := chromedp.Call(bounded, command, params)
	if err != nil {
		p.Fatal(err)
	}
	return result
}
