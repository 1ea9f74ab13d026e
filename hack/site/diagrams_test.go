package main

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var (
	built    = flag.String("site", "", "the site that make site has written")
	pictures = flag.String("pictures", "", "a folder that pictures of the diagrams are written to")
)

// patience bounds each wait for a page, on a machine that does other things.
const patience = 2 * time.Minute

// drawn says of each diagram what became of it: "" is a picture that is seen.
const drawn = `[...document.querySelectorAll("pre.mermaid")].map(e => {
  const svg = e.querySelector("svg");
  if (!svg) return "no picture: " + e.textContent.slice(0, 40);
  if (svg.querySelector(".error-icon")) return "not understood";
  const cut = [...svg.querySelectorAll("foreignObject")].filter(box => {
    const [text, room] = [box.firstElementChild, box].map(e => e.getBoundingClientRect());
    return text.width > room.width + 1 || text.height > room.height + 1;
  });
  if (cut.length) return "text is cut: " + cut.map(box => box.textContent.trim());
  const seen = svg.getBoundingClientRect();
  return seen.width > 50 && seen.height > 50 && svg.textContent.trim() ? "" : "nothing is seen";
})`

// TestDiagramsAreDrawn looks at each page that has diagrams in a real Chromium, which
// reaches the site and nothing else.
func TestDiagramsAreDrawn(t *testing.T) {
	s, address, browser := served(t)
	pages := 0
	for name, page := range s.pages {
		if page.diagrams == 0 {
			continue
		}
		pages++
		t.Run(name, func(t *testing.T) { looksRight(browser, t, address+name, name, page.diagrams) })
	}
	if pages < 5 {
		t.Errorf("only %d pages have diagrams", pages)
	}
}

// served is the site that was built, where it is served, and a browser that reaches nothing else.
func served(t *testing.T) (s *site, address string, browser context.Context) {
	t.Helper()
	if *built == "" {
		t.Skip("needs the site: make site-test")
	}
	s, err := read(os.DirFS(*built))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(*built)))
	t.Cleanup(server.Close)
	return s, server.URL + "/", chromium(t)
}

func chromium(t *testing.T) context.Context {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{
		chromedp.Headless, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.WindowSize(1280, 1600),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	}
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
	return browser
}

func looksRight(browser context.Context, t *testing.T, url, name string, diagrams int) {
	ctx, cancel := context.WithTimeout(browser, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	const all = `document.querySelectorAll("pre.mermaid svg").length === document.querySelectorAll("pre.mermaid").length`
	_, waited := chromedp.Run(ctx, chromedp.Poll[bool](all, chromedp.WithPollingTimeout(patience/4)))
	found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](drawn))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != diagrams || strings.Join(found, "") != "" {
		t.Errorf("of %d diagrams: %q (%v)", diagrams, found, waited)
	}
	if *pictures == "" {
		return
	}
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[any](`document.querySelector("pre.mermaid").scrollIntoView({ block: "center" })`)); err != nil {
		t.Fatal(err)
	}
	image, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pictures, strings.ReplaceAll(name, "/", "-")+".png"), image, 0o644); err != nil {
		t.Fatal(err)
	}
}
