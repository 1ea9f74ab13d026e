package board

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/show"
)

//go:embed page.html style.css live.js
var files embed.FS

// writer writes a view as HTML.
type writer struct{ templates *template.Template }

// items are what a table of what waits is written from.
type items struct {
	at    time.Time
	Items []show.Item
	Mood  string
}

// Ago is how long something lasts.
func (i items) Ago(then *time.Time) string {
	if then == nil {
		return ""
	}
	return since(i.at, *then)
}

func newWriter() (writer, error) {
	templates, err := template.New("").Funcs(template.FuncMap{
		"items": func(at time.Time, of []show.Item, mood string) items { return items{at, show.Folded(of), mood} },
		"ago":   func(now time.Time, then *time.Time) string { return since(now, *then) },
		"stamp": func(at *time.Time) string { return at.UTC().Format(time.RFC3339) },
	}).ParseFS(files, "page.html")
	if err != nil {
		return writer{}, fmt.Errorf("reading the board's page: %w", err)
	}
	return writer{templates}, nil
}

func (w writer) write(name string, data any) (string, error) {
	var out bytes.Buffer
	if err := w.templates.ExecuteTemplate(&out, name, data); err != nil {
		return "", fmt.Errorf("writing the board's %s: %w", name, err)
	}
	return out.String(), nil
}

// page is the whole page, of parts that are HTML already.
func (w writer) page(p parts, version int) (string, error) {
	sections := map[string]template.HTML{}
	for id, html := range p.sections {
		sections[id] = template.HTML(html) //nolint:gosec // a template wrote it
	}
	return w.write("page", map[string]any{"Sections": sections, "Tiles": template.HTML(p.allTiles()), "Version": version}) //nolint:gosec // likewise
}

func (w writer) story(s explain.Story) (string, error) { return w.write("story", s) }

// parts are the page's, by the ids of their elements. The list of tiles is one, and each
// tile is one: which of the two is sent depends on whether a tile came or went.
type parts struct {
	sections map[string]string
	// order are the ids of the tiles.
	order string
	tiles map[string]string
}

func (w writer) parts(v view) (parts, error) {
	p := parts{sections: map[string]string{}, tiles: make(map[string]string, len(v.Tiles))}
	var err error
	for _, name := range []string{"pool", "trouble", "person", "waits", "fleets", "events"} {
		if p.sections[name], err = w.write(name, v); err != nil {
			return parts{}, err
		}
	}
	var order strings.Builder
	for _, t := range v.Tiles {
		if p.tiles[t.ID], err = w.write("tile", t); err != nil {
			return parts{}, err
		}
		order.WriteString(t.ID + " ")
	}
	p.order = order.String()
	return p, nil
}

// since are the parts that differ from those that were sent before.
func (p parts) since(sent parts) map[string]string {
	changed := map[string]string{}
	for id, html := range p.sections {
		if sent.sections[id] != html {
			changed[id] = html
		}
	}
	if p.order != sent.order {
		changed["tiles"] = p.allTiles()
		return changed
	}
	for id, html := range p.tiles {
		if sent.tiles[id] != html {
			changed[id] = html
		}
	}
	return changed
}

func (p parts) allTiles() string {
	var all strings.Builder
	for id := range strings.FieldsSeq(p.order) {
		all.WriteString(p.tiles[id])
	}
	return all.String()
}
