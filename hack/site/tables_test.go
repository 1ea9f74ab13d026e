package main

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// wide are the tables of a page that do not fit it, by their first cell; and the navigation, where
// it is out of sight at the page's end.
const wide = `(() => {
  scrollTo(0, document.body.scrollHeight);
  const found = [...document.querySelectorAll("table")].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => "wide: " + e.querySelector("td").textContent);
  if (document.querySelector("nav a").getBoundingClientRect().bottom < 0) found.push("the navigation is out of sight");
  return found;
})()`

// The longest pages there are can be read without scrolling to the side, and left from their end.
func TestTheReferenceFitsAScreen(t *testing.T) {
	s, address, browser := served(t)
	pages := 0
	for name := range s.pages {
		if !strings.HasPrefix(name, "docs/reference/") {
			continue
		}
		pages++
		ctx, cancel := context.WithTimeout(browser, patience)
		defer cancel()
		if err := chromedp.Do(ctx, chromedp.Navigate(address+name)); err != nil {
			t.Fatal(err)
		}
		found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](wide))
		if err != nil || len(found) > 0 {
			t.Errorf("%s: %q (%v)", name, found, err)
		}
	}
	if pages < 5 {
		t.Errorf("only %d pages of the reference", pages)
	}
}
