package docs

import (
	"path/filepath"
	"strings"
	"testing"
)

// Each page stands at the left of the site's pages, but for the decisions, which have a list of
// their own. That what is named there is a page, the site's templates hold.
func TestEachPageIsInTheNavigation(t *testing.T) {
	site := read(t, root, "hack", "site", "hugo.toml")
	for path := range pages(t) {
		page, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		page = "/" + strings.TrimSuffix(filepath.ToSlash(page), ".md")
		if page == "/README" {
			page = "/"
		}
		if !strings.HasPrefix(page, "/docs/adr/") && !strings.Contains(site, `"`+page+`"`) {
			t.Errorf("hack/site/hugo.toml does not name %s in params.groups", page)
		}
	}
}
