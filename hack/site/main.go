// Command site checks the site that hugo has written: every link that stays in it leads to
// a file, and to an element of that file where it names one; and what draws diagrams is there.
package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: site <folder of the site>")
		os.Exit(2)
	}
	site, err := read(os.DirFS(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	wrong := append(site.dead(), site.undrawn()...)
	for _, line := range wrong {
		fmt.Fprintln(os.Stderr, line)
	}
	if len(wrong) > 0 {
		os.Exit(1)
	}
	fmt.Printf("%d pages, %d links within the site, none dead\n", len(site.pages), site.links())
}

// site is what was written: its files, and of its pages what they link to and have.
type site struct {
	files map[string]bool
	pages map[string]page
}

type page struct {
	links []string
	ids   map[string]bool
	// diagrams are those that diagrams.js draws, text those that hugo shows as code.
	diagrams, text int
}

func read(files fs.FS) (*site, error) {
	s := &site{files: map[string]bool{}, pages: map[string]page{}}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		s.files[name] = true
		if path.Ext(name) != ".html" {
			return nil
		}
		s.pages[name], err = readPage(files, name)
		return err
	})
	if err == nil && len(s.pages) == 0 {
		err = fmt.Errorf("no page is there: has hugo written the site?")
	}
	return s, err
}

func readPage(files fs.FS, name string) (page, error) {
	file, err := files.Open(name)
	if err != nil {
		return page{}, err
	}
	defer file.Close()
	root, err := html.Parse(file)
	if err != nil {
		return page{}, fmt.Errorf("%s: %w", name, err)
	}
	p := page{ids: map[string]bool{}}
	for node := range root.Descendants() {
		for _, a := range node.Attr {
			switch a.Key {
			case "href", "src":
				p.links = append(p.links, a.Val)
			case "id":
				p.ids[a.Val] = true
			case "class":
				switch a.Val {
				case "mermaid":
					p.diagrams++
				case "language-mermaid":
					p.text++
				}
			}
		}
	}
	return p, nil
}

// dead are the links that lead nowhere, a line each.
func (s *site) dead() []string {
	var lines []string
	for name, p := range s.pages {
		for _, link := range p.links {
			if !s.leads(name, link) {
				lines = append(lines, fmt.Sprintf("%s: %s leads nowhere", name, link))
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// undrawn are the pages with diagrams that stay text: shown as code, or without
// what draws them.
func (s *site) undrawn() []string {
	var lines []string
	for name, p := range s.pages {
		draws := slices.ContainsFunc(p.links, func(link string) bool { return strings.HasPrefix(path.Base(link), "diagrams.") })
		if p.text > 0 || p.diagrams > 0 && !draws {
			lines = append(lines, name+": its diagrams stay text")
		}
	}
	slices.Sort(lines)
	return lines
}

func (s *site) links() int {
	n := 0
	for _, p := range s.pages {
		n += len(p.links)
	}
	return n
}

// leads reports whether a page's link leads somewhere. What is elsewhere is not asked for.
func (s *site) leads(from, link string) bool {
	to, err := url.Parse(link)
	if err != nil {
		return false
	}
	if to.IsAbs() || to.Host != "" {
		return true
	}
	name := from
	if to.Path != "" {
		name = path.Join(path.Dir(from), to.Path)
	}
	if strings.HasSuffix(to.Path, "/") || name == "." {
		name = path.Join(name, "index.html")
	}
	return s.files[name] && (to.Fragment == "" || s.pages[name].ids[to.Fragment])
}
