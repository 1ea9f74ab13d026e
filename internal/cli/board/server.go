package board

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

const (
	// settle is how long changes are gathered before they are shown.
	settle = 300 * time.Millisecond
	// tick is how often ages are written anew, and how long the cluster may take to answer.
	tick = 10 * time.Second
)

// Source is where a board's snapshots come from.
type Source interface {
	Snapshot(ctx context.Context) (*snapshot.Snapshot, error)
	Changed() <-chan struct{}
	// Trouble is why the snapshot may be old.
	Trouble(ctx context.Context) error
}

// Server shows one source. Whoever knows the address sees it: the address has a secret in
// its path, as the machine may have other users.
type Server struct {
	source Source
	book   reasons.Book
	writer writer
	secret string
	// every is how often ages and countdowns are written anew, and the source is doubted.
	every time.Duration

	mu    sync.Mutex
	shown state
	// next is closed when something else is shown.
	next chan struct{}
}

// state is what is shown.
type state struct {
	snapshot *snapshot.Snapshot
	// trouble is why that may be old; nil: it is not.
	trouble error
	parts   parts
	// version counts what was shown.
	version int
}

// NewServer shows what the source has now.
func NewServer(ctx context.Context, source Source) (*Server, error) {
	w, err := newWriter()
	if err != nil {
		return nil, err
	}
	now, err := source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{source: source, book: reasons.Read(), writer: w, secret: rand.Text(), every: tick, next: make(chan struct{})}
	return s, s.show(func(next *state) { next.snapshot = now })
}

// URL is the page's, behind the listener.
func (s *Server) URL(listener net.Listener) string {
	return fmt.Sprintf("http://%s/%s/", listener.Addr(), s.secret)
}

// Serve serves until ctx ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.handler(listener.Addr().String()), ReadHeaderTimeout: tick,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	go s.follow(ctx)
	go s.doubt(ctx)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the board: %w", err)
	}
	return nil
}

// follow shows what changes, a few times a second at most.
func (s *Server) follow(ctx context.Context) {
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.source.Changed():
		case <-ticker.C:
		}
		if now, err := s.source.Snapshot(ctx); err == nil { // else the doubt says why
			_ = s.show(func(next *state) { next.snapshot = now }) // what was written before can be written again
		}
		select {
		case <-ctx.Done():
		case <-time.After(settle):
		}
	}
}

// doubt asks again and again whether what is shown may be old. It waits for a cluster that
// does not answer, which follow does not.
func (s *Server) doubt(ctx context.Context) {
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, tick)
		trouble := s.source.Trouble(bounded)
		cancel()
		_ = s.show(func(next *state) { next.trouble = trouble })
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// show shows what a change makes of what is shown.
func (s *Server) show(change func(*state)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.shown
	change(&next)
	said := ""
	if next.trouble != nil {
		said = next.trouble.Error()
	}
	var err error
	if next.parts, err = s.writer.parts(viewOf(next.snapshot, s.book, said)); err != nil {
		return err
	}
	if changed := len(next.parts.since(s.shown.parts)) > 0; changed {
		next.version++
		close(s.next)
		s.next = make(chan struct{})
	}
	s.shown = next
	return nil
}

// now is what is shown, and a channel that is closed when that is over.
func (s *Server) now() (state, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown, s.next
}

func (s *Server) handler(host string) http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", s.page)
	pages.HandleFunc("GET /live", s.live)
	pages.HandleFunc("GET /story", s.story)
	for _, file := range []string{"style.css", "live.js"} {
		pages.HandleFunc("GET /"+file, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, file) })
	}
	secret := http.StripPrefix("/"+s.secret, pages)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "This is macfleet's board: its address is the whole line that it printed.", http.StatusNotFound)
	})
	mux.HandleFunc("GET /"+s.secret+"/", func(w http.ResponseWriter, r *http.Request) {
		// A name that somebody else's page made this machine's is not ours.
		if r.Host != host && r.Host+":80" != host { // browsers leave the usual port out
			http.Error(w, "the board is at http://"+host, http.StatusMisdirectedRequest)
			return
		}
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		secret.ServeHTTP(w, r)
	})
	return mux
}

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	shown, _ := s.now()
	html, err := s.writer.page(shown.parts, shown.version)
	respond(w, r, html, err)
}

func (s *Server) story(w http.ResponseWriter, r *http.Request) {
	shown, _ := s.now()
	query := r.URL.Query()
	story, err := storyOf(shown.snapshot, s.book, query.Get("kind"), query.Get("namespace"), query.Get("name"))
	if unknown := (explain.UnknownError{}); errors.As(err, &unknown) {
		story, err = explain.Story{Kind: unknown.Kind, Name: unknown.Name}, nil
	}
	if err != nil {
		respond(w, r, "", err)
		return
	}
	html, err := s.writer.story(story)
	respond(w, r, html, err)
}

// respond packs what it writes: a thousand tiles differ little, and the way to a board may be
// a tunnel through SSH.
func respond(w http.ResponseWriter, r *http.Request, html string, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = io.WriteString(w, html)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // which fails for a level that does not exist alone
	_, _ = io.WriteString(packed, html)
	_ = packed.Close()
}

// live sends the parts as they change; all of them first, unless the page was written from
// what is shown now.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	var sent parts
	if shown, _ := s.now(); r.URL.Query().Get("version") == strconv.Itoa(shown.version) {
		sent = shown.parts
	}
	for {
		shown, over := s.now()
		if changed := shown.parts.since(sent); len(changed) > 0 {
			line, err := json.Marshal(changed)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "data: %s\n\n", line); err != nil {
				return
			}
		}
		sent = shown.parts
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-over:
		}
	}
}
